/* A libnvidia-ml.so.1 without a driver. What it answers stands in the file that FAKE_NVML_STATE names, read anew
 * at each call, so that a test can change cards and faults while the agent runs:
 *
 *     card <uuid> <PCI bus id> <memory bytes> <used bytes> <utilisation %> <temperature C> <power mW> <name>
 *     fault <function> <NVML error code>      the call fails
 *     hang <function>                         the call does not return while this line is there
 *
 * The order of the cards is their index order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, MAX_CARDS = 16, LINE = 512 };

struct card {
    char uuid[96], bus[32], name[96];
    unsigned long long memory, used;
    unsigned utilisation, temperature, power;
};

struct memory { unsigned long long total, free, used; };
struct utilisation { unsigned gpu, memory; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static FILE *open_state(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    return path ? fopen(path, "r") : NULL;
}

static unsigned read_cards(struct card *cards)
{
    char line[LINE];
    unsigned count = 0;
    FILE *state = open_state();
    while (state && count < MAX_CARDS && fgets(line, sizeof line, state)) {
        struct card *c = &cards[count];
        if (sscanf(line, "card %95s %31s %llu %llu %u %u %u %95[^\n]", c->uuid, c->bus, &c->memory, &c->used,
                   &c->utilisation, &c->temperature, &c->power, c->name) == 8)
            count++;
    }
    if (state) fclose(state);
    return count;
}

/* What the state file says about a function: its error, or -1 while it shall hang. */
static int verdict(const char *function)
{
    char line[LINE], name[96];
    int code, found = SUCCESS;
    FILE *state = open_state();
    while (state && fgets(line, sizeof line, state)) {
        if (sscanf(line, "fault %95s %d", name, &code) == 2 && strcmp(name, function) == 0) found = code;
        if (sscanf(line, "hang %95s", name) == 1 && strcmp(name, function) == 0) found = -1;
    }
    if (state) fclose(state);
    return found;
}

static int enter(const char *function)
{
    int found;
    while ((found = verdict(function)) == -1) usleep(10000);
    return found;
}

/* Handles are index + 1. */
static int find(const char *function, void *handle, struct card *out)
{
    struct card cards[MAX_CARDS];
    size_t number = (size_t)handle;
    int error = enter(function);
    if (error) return error;
    if (number == 0 || number > read_cards(cards)) return INVALID_ARGUMENT;
    *out = cards[number - 1];
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return enter("nvmlInitWithFlags"); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error)
{
    static char text[64];
    snprintf(text, sizeof text, "fake error %d", error);
    return text;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    struct card cards[MAX_CARDS];
    int error = enter("nvmlDeviceGetCount_v2");
    if (!error) *count = read_cards(cards);
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    struct card card;
    *handle = (void *)((size_t)index + 1);
    return find("nvmlDeviceGetHandleByIndex_v2", *handle, &card);
}

int nvmlDeviceGetUUID(void *handle, char *out, unsigned length)
{
    struct card card;
    int error = find("nvmlDeviceGetUUID", handle, &card);
    if (!error) snprintf(out, length, "%s", card.uuid);
    return error;
}

int nvmlDeviceGetName(void *handle, char *out, unsigned length)
{
    struct card card;
    int error = find("nvmlDeviceGetName", handle, &card);
    if (!error) snprintf(out, length, "%s", card.name);
    return error;
}

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *out)
{
    struct card card;
    int error = find("nvmlDeviceGetMemoryInfo", handle, &card);
    if (!error) *out = (struct memory){card.memory, card.memory - card.used, card.used};
    return error;
}

int nvmlDeviceGetUtilizationRates(void *handle, struct utilisation *out)
{
    struct card card;
    int error = find("nvmlDeviceGetUtilizationRates", handle, &card);
    if (!error) *out = (struct utilisation){card.utilisation, 0};
    return error;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *out)
{
    struct card card;
    int error = find("nvmlDeviceGetTemperature", handle, &card);
    (void)sensor;
    if (!error) *out = card.temperature;
    return error;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *out)
{
    struct card card;
    int error = find("nvmlDeviceGetPowerUsage", handle, &card);
    if (!error) *out = card.power;
    return error;
}

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *out)
{
    struct card card;
    int error = find("nvmlDeviceGetPciInfo_v3", handle, &card);
    if (!error) {
        memset(out, 0, sizeof *out);
        snprintf(out->bus_id, sizeof out->bus_id, "%s", card.bus);
    }
    return error;
}
