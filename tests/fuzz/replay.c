/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzzer's inputs without libFuzzer: replay FILE|DIRECTORY... It fails if there is no input.
 * A fault of an input ends the process.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static unsigned inputs;

/* Runs the input of a file. Its bytes end where their memory does, so that a sanitizer sees
 * overreads. */
static void replay(const char *path, size_t size)
{
    FILE *in = fopen(path, "rb");
    uint8_t *bytes = malloc(size ? size : 1);
    if (!in || !bytes || fread(bytes, 1, size, in) != size) {
        perror(path);
        exit(2);
    }
    fclose(in);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    inputs++;
}

static void replay_all(const char *directory)
{
    DIR *d = opendir(directory);
    if (!d) {
        perror(directory);
        exit(2);
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[1024];
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            replay(path, (size_t)st.st_size);
    }
    closedir(d);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) != 0) {
            perror(argv[i]);
            return 2;
        }
        if (S_ISDIR(st.st_mode))
            replay_all(argv[i]);
        else
            replay(argv[i], (size_t)st.st_size);
    }
    printf("%u inputs\n", inputs);
    return inputs ? 0 : 1;
}
