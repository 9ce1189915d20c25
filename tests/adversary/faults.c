/* Faults of the system, for a process that is started with this library preloaded.

   fault_arm("write", 3, "EIO", "/folder") makes the third write below /folder fail with EIO. "short" does half
   of a read or write, "kill" ends the process just before the call. 0 in place of 3 is every call, -3 the
   third and all after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char call_name[32], what[32], under[4096];
static long at, count;
static int armed;

void fault_arm(const char *name, long number, const char *fault, const char *folder) {
    snprintf(call_name, sizeof call_name, "%s", name);
    snprintf(what, sizeof what, "%s", fault);
    snprintf(under, sizeof under, "%s", folder);
    at = number;
    count = 0;
    armed = 1;
}

/* How many of the armed calls there were. */
long fault_count(void) { return count; }

enum { REAL, FAIL, HALF };

static int fault(const char *name, int descriptor) {
    char link[64], path[4096];
    if (!armed || strcmp(name, call_name)) return REAL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return REAL;
    path[length] = 0;
    if (strncmp(path, under, strlen(under))) return REAL;
    long number = __sync_add_and_fetch(&count, 1);
    if (at > 0 ? number != at : number < -at) return REAL;
    if (!strcmp(what, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(what, "short")) return HALF;
    errno = !strcmp(what, "ENOSPC") ? ENOSPC : EIO;
    return FAIL;
}

#define REAL_CALL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define HALF_OF(size) ((size) > 1 ? (size) / 2 : (size))

#define READS_OR_WRITES(symbol, name, buffer, offset)                                  \
    ssize_t symbol(int descriptor, buffer data, size_t size, offset position) {        \
        REAL_CALL(symbol);                                                             \
        int found = fault(name, descriptor);                                           \
        if (found == FAIL) return -1;                                                  \
        return real(descriptor, data, found == HALF ? HALF_OF(size) : size, position); \
    }
READS_OR_WRITES(pread, "pread", void *, off_t)
READS_OR_WRITES(pread64, "pread", void *, off64_t)

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL_CALL(write);
    int found = fault("write", descriptor);
    if (found == FAIL) return -1;
    return real(descriptor, data, found == HALF ? HALF_OF(size) : size);
}

#define ON_DESCRIPTOR(symbol, name, parameters, arguments, descriptor) \
    int symbol parameters {                                            \
        REAL_CALL(symbol);                                             \
        return fault(name, descriptor) == FAIL ? -1 : real arguments;  \
    }
ON_DESCRIPTOR(fsync, "fsync", (int file), (file), file)
ON_DESCRIPTOR(ftruncate, "ftruncate", (int file, off_t size), (file, size), file)
ON_DESCRIPTOR(ftruncate64, "ftruncate", (int file, off64_t size), (file, size), file)
ON_DESCRIPTOR(renameat, "rename", (int from, const char *old, int to, const char *new), (from, old, to, new), to)
ON_DESCRIPTOR(linkat, "link", (int from, const char *old, int to, const char *new, int flags),
              (from, old, to, new, flags), to)
ON_DESCRIPTOR(unlinkat, "unlink", (int folder, const char *name, int flags), (folder, name, flags), folder)
