/* Large blocks go back to the system when they are freed. Left to itself glibc raises the size from which it maps a block
 * on its own each time a larger one is freed, up to 32 MiB, and then keeps what was freed: twelve answers of 7 MiB left
 * 500 MiB resident of 210 that were in use. */

#include <malloc.h>

__attribute__((constructor)) static void return_large_blocks(void) {
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
}
