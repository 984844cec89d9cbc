/* A libnvidia-ml.so.1 that reads its cards from the file $FAKE_NVML_STATE, anew at each call:

       init 18                      every start fails with this code        driver 550.54.14      cuda 12040
       hang                         the next call for the number of cards never returns           crash   it aborts
       gpu GPU-1                    begins a card; what follows belongs to it
       name NVIDIA L4               memory 25769803776    used 1048576    bus 00000000:01:00.0    gen 4    width 16
       limit 72000                  power 16000    load 3    temperature 41    ecc 1    mig 0    vbios 95.04    processes 0
       sm_clock 2040                memory_clock 6251    throttle 0x5
       error power 3                the call for `power` of this card fails with code 3 (`error handle 15` hides it)
       xid 79                       one event of this card; each is told once per process

   What a card does not say is NOT_SUPPORTED. Layouts follow nvml.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CARDS 32
#define PUBLIC __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10 };

typedef struct card { int index; } *device;
static struct card cards[CARDS];
static int events_told;

/* The rest of the line that begins with `key`, in the card's part of the file (card -1: before the first card). */
static int find(int card, const char *key, int occurrence, char *value, size_t size) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    int current = -1, found = 0;
    size_t length = strlen(key);
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "gpu ", 4))
            current++;
        if (current == card && !strncmp(line, key, length) && (line[length] == ' ' || !line[length]) && occurrence-- == 0) {
            snprintf(value, size, "%s", line[length] ? line + length + 1 : "");
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static int count(void) {
    char value[256];
    int number = 0;
    while (number < CARDS && find(number, "gpu", 0, value, sizeof value))
        number++;
    return number;
}

static int failure(device card, const char *key) {
    char name[64], value[64];
    snprintf(name, sizeof name, "error %s", key);
    return find(card->index, name, 0, value, sizeof value) ? atoi(value) : SUCCESS;
}

static int text(device card, const char *key, char *out, unsigned size) {
    int code = failure(card, key);
    if (code)
        return code;
    return find(card->index, key, 0, out, size) ? SUCCESS : NOT_SUPPORTED;
}

static int number(device card, const char *key, unsigned long long *out) {
    char value[64];
    int code = text(card, key, value, sizeof value);
    if (code == SUCCESS)
        *out = strtoull(value, NULL, 0);
    return code;
}

static int small(device card, const char *key, unsigned *out) {
    unsigned long long value;
    int code = number(card, key, &value);
    if (code == SUCCESS)
        *out = (unsigned)value;
    return code;
}

PUBLIC int nvmlInitWithFlags(unsigned flags) {
    char value[64];
    (void)flags;
    if (!getenv("FAKE_NVML_STATE"))
        return DRIVER_NOT_LOADED;
    return find(-1, "init", 0, value, sizeof value) ? atoi(value) : SUCCESS;
}
PUBLIC int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
PUBLIC int nvmlShutdown(void) { return SUCCESS; }
PUBLIC const char *nvmlErrorString(int code) { return code ? "fake error" : "success"; }

PUBLIC int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    return find(-1, "driver", 0, out, size) ? SUCCESS : NOT_SUPPORTED;
}
PUBLIC int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    char value[64];
    if (!find(-1, "cuda", 0, value, sizeof value))
        return NOT_SUPPORTED;
    *out = atoi(value);
    return SUCCESS;
}

PUBLIC int nvmlDeviceGetCount_v2(unsigned *out) {
    char value[64];
    if (find(-1, "crash", 0, value, sizeof value))
        abort();
    while (find(-1, "hang", 0, value, sizeof value))
        sleep(3600);
    *out = (unsigned)count();
    return SUCCESS;
}
PUBLIC int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) {
    if ((int)index >= count())
        return INVALID_ARGUMENT;
    cards[index].index = (int)index;
    *out = &cards[index];
    return failure(*out, "handle");
}
PUBLIC int nvmlDeviceGetHandleByUUID(const char *uuid, device *out) {
    char value[96];
    for (int index = 0; index < count(); index++)
        if (find(index, "gpu", 0, value, sizeof value) && !strcmp(value, uuid))
            return nvmlDeviceGetHandleByIndex_v2((unsigned)index, out);
    return INVALID_ARGUMENT;
}
PUBLIC int nvmlDeviceGetUUID(device card, char *out, unsigned size) { return text(card, "gpu", out, size); }
PUBLIC int nvmlDeviceGetName(device card, char *out, unsigned size) { return text(card, "name", out, size); }
PUBLIC int nvmlDeviceGetVbiosVersion(device card, char *out, unsigned size) { return text(card, "vbios", out, size); }

struct memory { unsigned long long total, free, used; };
PUBLIC int nvmlDeviceGetMemoryInfo(device card, struct memory *out) {
    int code = number(card, "memory", &out->total);
    if (code)
        return code;
    if (number(card, "used", &out->used))
        out->used = 0;
    out->free = out->total - out->used;
    return SUCCESS;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
PUBLIC int nvmlDeviceGetPciInfo_v3(device card, struct pci *out) {
    memset(out, 0, sizeof *out);
    return text(card, "bus", out->bus_id, sizeof out->bus_id);
}

PUBLIC int nvmlDeviceGetMaxPcieLinkGeneration(device card, unsigned *out) { return small(card, "gen", out); }
PUBLIC int nvmlDeviceGetMaxPcieLinkWidth(device card, unsigned *out) { return small(card, "width", out); }
PUBLIC int nvmlDeviceGetEnforcedPowerLimit(device card, unsigned *out) { return small(card, "limit", out); }
PUBLIC int nvmlDeviceGetPowerUsage(device card, unsigned *out) { return small(card, "power", out); }
PUBLIC int nvmlDeviceGetTemperature(device card, int sensor, unsigned *out) {
    (void)sensor;
    return small(card, "temperature", out);
}
PUBLIC int nvmlDeviceGetClockInfo(device card, int which, unsigned *out) {
    return small(card, which == 2 ? "memory_clock" : "sm_clock", out);
}
PUBLIC int nvmlDeviceGetEccMode(device card, unsigned *now, unsigned *pending) {
    int code = small(card, "ecc", now);
    *pending = *now;
    return code;
}
PUBLIC int nvmlDeviceGetMigMode(device card, unsigned *now, unsigned *pending) {
    int code = small(card, "mig", now);
    *pending = *now;
    return code;
}

PUBLIC int nvmlDeviceGetCurrentClocksEventReasons(device card, unsigned long long *out) {
    return number(card, "throttle", out);
}

struct utilization { unsigned gpu, memory; };
PUBLIC int nvmlDeviceGetUtilizationRates(device card, struct utilization *out) {
    out->memory = 0;
    return small(card, "load", &out->gpu);
}

struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
PUBLIC int nvmlDeviceGetComputeRunningProcesses_v3(device card, unsigned *size, struct process *out) {
    unsigned running;
    int code = small(card, "processes", &running);
    if (code)
        return code;
    if (running > *size) {
        *size = running;
        return INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < running; i++)
        out[i] = (struct process){1000 + i, 1 << 20, 0xffffffff, 0xffffffff};
    *size = running;
    return SUCCESS;
}

PUBLIC int nvmlEventSetCreate(void **out) {
    static int set;
    *out = &set;
    return SUCCESS;
}
PUBLIC int nvmlDeviceRegisterEvents(device card, unsigned long long types, void *set) {
    (void)types, (void)set;
    return failure(card, "events");
}

struct event { device card; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
PUBLIC int nvmlEventSetWait_v2(void *set, struct event *out, unsigned timeout) {
    int passed = 0;
    char value[64];
    (void)set, (void)timeout;
    for (int index = 0; index < count(); index++)
        for (int n = 0; find(index, "xid", n, value, sizeof value); n++)
            if (passed++ == events_told) {
                events_told++;
                cards[index].index = index;
                *out = (struct event){&cards[index], 8, strtoull(value, NULL, 10), 0, 0};
                return SUCCESS;
            }
    return TIMEOUT;
}
