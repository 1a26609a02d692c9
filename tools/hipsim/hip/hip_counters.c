/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the CSV table of option `counters`. Columns that rocprof has too have rocprof's names. */
#include "hip_counters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    FILE *file, *next; /* the table's file; the one that is prepared to replace it. NULL: none */
    char path[OPTION_TEXT];
    uint64_t rows;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char header[] =
    "Dispatch_ID,Kernel_Name,Grid_Size,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,"
    "Accum_VGPR_Count,SGPR_Count,SQ_WAVES,SQ_INSTS,SQ_INSTS_SALU,SQ_INSTS_VALU,SQ_INSTS_MFMA,"
    "SQ_INSTS_VMEM,SQ_INSTS_SMEM,SQ_INSTS_LDS,SQ_INSTS_BRANCH,Findings,Duration_us,Cycles,VALUBusy,"
    "MfmaUtil,LDSBankConflict,L2CacheHit,HBM_Bytes,Load_Bytes,Store_Bytes\n";

bool hip_counters_prepare(const struct options *options, char *why, size_t why_size)
{
    pthread_mutex_lock(&table.lock);
    const bool is_new = *options->counters && strcmp(options->counters, table.path) != 0;
    if (is_new) {
        table.next = fopen(options->counters, "w");
        if (!table.next)
            snprintf(why, why_size, "%s: %s", options->counters, strerror(errno));
    }
    const bool ok = !is_new || table.next;
    pthread_mutex_unlock(&table.lock);
    return ok;
}

void hip_counters_settle(const struct options *options, bool ok)
{
    pthread_mutex_lock(&table.lock);
    FILE *const file = table.next;
    if (file && !ok) {
        fclose(file);
    } else if (file) {
        if (table.file)
            fclose(table.file);
        table.file = file;
        table.rows = 0;
        strcpy(table.path, options->counters);
        fputs(header, file);
        fflush(file);
    }
    table.next = NULL;
    pthread_mutex_unlock(&table.lock);
}

/* Writes a name in quotes; a quote in it is written twice. */
static void put_name(FILE *file, const char *name)
{
    fputc('"', file);
    for (; *name; name++) {
        if (*name == '"')
            fputc('"', file);
        fputc(*name, file);
    }
    fputc('"', file);
}

/* Returns the product of three sizes. */
static uint64_t product(const uint32_t size[3]) { return (uint64_t)size[0] * size[1] * size[2]; }

void hip_counters_write(const struct hipsim_launch_stats *s, const struct hipsim_time_report *t)
{
    pthread_mutex_lock(&table.lock);
    FILE *file = table.file;
    if (file) {
        fprintf(file, "%" PRIu64 ",", ++table.rows);
        put_name(file, s->kernel);
        fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%u,%u", product(s->grid),
                product(s->block), s->lds_bytes, s->private_bytes, s->vgprs, s->agprs, s->sgprs);
        const uint64_t counts[] = {s->waves, s->instructions, s->salu, s->valu,   s->mfma,
                                   s->vmem,  s->smem,         s->lds,  s->branch, s->findings};
        for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
            fprintf(file, ",%" PRIu64, counts[i]);
        fprintf(file, ",%.3f", s->microseconds);
        if (t)
            fprintf(file, ",%.0f,%.2f,%.2f,%.2f,%.2f,%.0f,%.0f,%.0f\n", t->cycles,
                    100 * t->valu_busy, 100 * t->matrix_fraction, 100 * t->lds_conflict,
                    100 * t->l2_hit, t->hbm_bytes, t->load_bytes, t->store_bytes);
        else
            fputs(",,,,,,,,\n", file); /* columns of the timing model, which did not run */
        fflush(file);
    }
    pthread_mutex_unlock(&table.lock);
}
