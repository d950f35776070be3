/* SPDX-License-Identifier: Apache-2.0 */
/* Raw system calls for pid 1 and its shims. They share one address space, so
 * none of them may touch errno: every call here returns the value or -errno.
 * Knows nothing about what the calls are for. */
#ifndef SLUICE_GUEST_PID1_SYS_H
#define SLUICE_GUEST_PID1_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

#define SYS0(n)          sys6((n), 0, 0, 0, 0, 0, 0)
#define SYS1(n, a)       sys6((n), (long)(a), 0, 0, 0, 0, 0)
#define SYS2(n, a, b)    sys6((n), (long)(a), (long)(b), 0, 0, 0, 0)
#define SYS3(n, a, b, c) sys6((n), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS4(n, a, b, c, d) \
	sys6((n), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYS6(n, a, b, c, d, e, f)                                        \
	sys6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), \
	    (long)(f))

#if defined(__x86_64__)

static inline long
sys6(long n, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile(
	    "syscall"
	    : "=a"(ret)
	    : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	    : "rcx", "r11", "memory");
	return ret;
}

/* clone(flags) on a stack of its own; the child runs fn(arg) and exits with
 * its result. `top` must be 16-byte aligned. Returns in the parent only. */
static inline long
sys_clone_run(unsigned long flags, void *top, int (*fn)(void *), void *arg)
{
	long ret;
	void **sp = top;
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;

	*--sp = arg;
	*--sp = (void *)(uintptr_t)fn;
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "pop %%rax\n\t"
			 "pop %%rdi\n\t"
			 "call *%%rax\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov $60, %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"((long)SYS_clone), "D"(flags), "S"(sp), "d"(0L),
			 "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

static inline long
sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}

static inline long
sys_clone_run(unsigned long flags, void *top, int (*fn)(void *), void *arg)
{
	void **sp = top;
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = (long)flags;
	register void *x1 __asm__("x1");
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;

	*--sp = arg;
	*--sp = (void *)(uintptr_t)fn;
	x1 = sp;
	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "ldp x1, x0, [sp], #16\n\t"
			 "blr x1\n\t"
			 "mov x8, #93\n\t"
			 "svc 0\n"
			 "1:"
			 : "+r"(x0), "+r"(x1)
			 : "r"(x8), "r"(x2), "r"(x3), "r"(x4)
			 : "x30", "memory", "cc");
	return x0;
}

#else
#error "pid 1 knows x86_64 and aarch64 only"
#endif

#endif
