/*
 * Runs a program and puts a fault at one of the calls that it makes to files below a folder.
 *
 *     inject REPORT FOLDER KINDS FAULT NUMBER PROGRAM [ARGUMENT..]
 *
 * Calls of the listed kinds (separated by commas) are counted from 1 across all threads, in the order in which the kernel
 * gets them. FAULT is what happens instead of call NUMBER: `kill`, the number of an error, or such a number and `+` for
 * this and all later ones. REPORT gets a line for each call: its number, kind and path; and ends at a kill.
 *
 * The kernel asks this process about each call (seccomp_unotify(2)), whichever library or thread makes it: nothing can
 * pass by, and one counter numbers all threads. The program is the real one and knows nothing of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where a call names its file: by a descriptor in argument `at`, or by the path in argument `path`, below `at`. */
struct call {
    int number;
    const char *kind;
    int at, path;
};

enum { NONE = -1 };

static const struct call CALLS[] = {
    {SYS_write, "write", 0, NONE},
    {SYS_pwrite64, "write", 0, NONE},
    {SYS_writev, "write", 0, NONE},
    {SYS_pwritev, "write", 0, NONE},
    {SYS_pwritev2, "write", 0, NONE},
    {SYS_copy_file_range, "write", 2, NONE},
    {SYS_sendfile, "write", 0, NONE},
    {SYS_fsync, "sync", 0, NONE},
    {SYS_fdatasync, "sync", 0, NONE},
    {SYS_ftruncate, "size", 0, NONE},
    {SYS_truncate, "size", NONE, 0},
    {SYS_fallocate, "size", 0, NONE},
    {SYS_renameat, "rename", 0, 1},
    {SYS_renameat2, "rename", 0, 1},
    {SYS_unlinkat, "unlink", 0, 1},
    {SYS_linkat, "link", 2, 3},
    {SYS_mkdirat, "mkdir", 0, 1},
    {SYS_fchmod, "mode", 0, NONE},
    {SYS_fchmodat, "mode", 0, 1},
    {SYS_openat, "open", 0, 1},
    {SYS_read, "read", 0, NONE},
    {SYS_pread64, "read", 0, NONE},
    {SYS_getdents64, "read", 0, NONE},
    {SYS_statx, "stat", 0, 1},
    {SYS_newfstatat, "stat", 0, 1},
    {SYS_flock, "lock", 0, NONE},
    /* What newer architectures have no longer. */
#ifdef SYS_open
    {SYS_open, "open", NONE, 0},
    {SYS_rename, "rename", NONE, 0},
    {SYS_unlink, "unlink", NONE, 0},
    {SYS_rmdir, "unlink", NONE, 0},
    {SYS_link, "link", NONE, 1},
    {SYS_mkdir, "mkdir", NONE, 0},
    {SYS_chmod, "mode", NONE, 0},
    {SYS_stat, "stat", NONE, 0},
    {SYS_lstat, "stat", NONE, 0},
#endif
};

enum { COUNT = sizeof CALLS / sizeof *CALLS };

static void fail(const char *what) {
    perror(what);
    _exit(125);
}

static const struct call *known(const struct seccomp_data *data) {
    for (int at = 0; at < COUNT; at++)
        if (CALLS[at].number == data->nr) return &CALLS[at];
    return NULL;
}

/* An open that makes a file is of a kind of its own. */
static const char *kind(const struct call *call, const struct seccomp_data *data) {
    int flags = call->path == NONE ? 0 : (int)data->args[call->path + 1];
    return strcmp(call->kind, "open") == 0 && flags & O_CREAT ? "create" : call->kind;
}

static int is_listed(const char *kinds, const char *kind) {
    size_t length = strlen(kind);
    for (const char *at = kinds; (at = strstr(at, kind)); at += length)
        if ((at == kinds || at[-1] == ',') && (at[length] == ',' || at[length] == 0)) return 1;
    return 0;
}

/* Follows a link of /proc. */
static void linked(char *path, int process, const char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/%s", process, name);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

/* The path of a call's file; empty if it is not known. */
static void path_of(char *path, const struct call *call, const struct seccomp_notif *asked) {
    char given[PATH_MAX] = "", name[32];
    *path = 0;
    if (call->path != NONE) {
        snprintf(name, sizeof name, "/proc/%d/mem", asked->pid);
        int memory = open(name, O_RDONLY | O_CLOEXEC);
        if (memory < 0) return;
        /* It may lie at the end of what can be read. */
        for (size_t at = 0; at < sizeof given - 1; at++) {
            if (pread(memory, given + at, 1, asked->data.args[call->path] + at) != 1 || given[at] == 0) break;
        }
        close(memory);
        if (*given == '/') {
            strcpy(path, given);
            return;
        }
    }
    int at = call->at == NONE ? AT_FDCWD : (int)asked->data.args[call->at];
    snprintf(name, sizeof name, "fd/%d", at);
    linked(path, asked->pid, at == AT_FDCWD ? "cwd" : name);
    size_t length = strlen(path);
    if (*given && length && length + strlen(given) + 2 <= PATH_MAX) {
        path[length] = '/';
        strcpy(path + length + 1, given);
    }
}

/* The filter that asks about each known call. Returns the descriptor that the questions come from. */
static int ask(void) {
    struct sock_filter filter[COUNT + 3];
    unsigned short size = 0;
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int at = 0; at < COUNT; at++)
        filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[at].number, COUNT - at, 0);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {size, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
};

static void send_descriptor(int to, int descriptor) {
    union control control = {0};
    struct iovec byte = {"", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(to, &message, 0) != 1) _exit(125);
}

static int receive_descriptor(int from) {
    union control control = {0};
    char byte;
    struct iovec whole = {&byte, 1};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int descriptor = -1;
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

int main(int count, char **words) {
    if (count < 7) return 125;
    const char *folder = words[2], *kinds = words[3], *fault = words[4];
    size_t length = strlen(folder);
    long chosen = atol(words[5]), number = 0;
    int is_kill = strcmp(fault, "kill") == 0, error = atoi(fault), is_lasting = strchr(fault, '+') != NULL;
    FILE *report = fopen(words[1], "we");
    int pair[2];
    if (!report || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) fail("inject");
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int questions = ask();
        if (questions < 0) fail("the kernel cannot ask about calls");
        send_descriptor(pair[1], questions);
        execv(words[6], words + 6);
        _exit(125);
    }
    close(pair[1]);
    int questions = receive_descriptor(pair[0]);
    if (process < 0 || questions < 0) return 125;
    struct pollfd wait = {questions, POLLIN, 0};
    /* It hangs up when the program has ended. */
    while (poll(&wait, 1, -1) > 0 && wait.revents & POLLIN) {
        struct seccomp_notif asked = {0};
        /* The call may have ended meanwhile, by a signal. */
        if (ioctl(questions, SECCOMP_IOCTL_NOTIF_RECV, &asked)) continue;
        struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        const struct call *call = known(&asked.data);
        char path[PATH_MAX];
        if (call && is_listed(kinds, kind(call, &asked.data))) {
            path_of(path, call, &asked);
            if (strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0)) {
                number++;
                fprintf(report, "%ld %s %s\n", number, kind(call, &asked.data), path);
                if (is_kill && number == chosen) {
                    kill(process, SIGKILL);
                    continue;
                }
                if (error && (number == chosen || (is_lasting && number > chosen))) {
                    answer.flags = 0;
                    answer.error = -error;
                }
            }
        }
        ioctl(questions, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    fclose(report);
    int status;
    if (waitpid(process, &status, 0) != process) fail("waitpid");
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
