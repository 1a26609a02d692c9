/* A file that descriptions here name; it is never compiled. */
