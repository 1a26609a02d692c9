__kernel void smoke(void) {}
