/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/tune/db.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/tuning_key.h"
#include "tools/attnc/cli/command.h"

/* Milliseconds to wait for a lock; version of the database. In version 0 a key names every field of
 * its op; from version 1 on it is what attnc_key_text() writes. */
enum { BUSY_MS = 60000, VERSION = 1 };

/* An open database. */
struct tune_db {
    sqlite3 *handle;
    char *path;
};

/* Rows are stored in the order of the primary key, so that listings need no sort. */
static const char schema[] =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS results(key TEXT, target TEXT, device TEXT, shape TEXT, tile TEXT,"
    " source TEXT, cycles REAL, us REAL, us_low REAL, us_high REAL, runs INTEGER,"
    " matrix_duty REAL, memory_fraction REAL, fault TEXT,"
    " PRIMARY KEY(key, device, shape, tile, source)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS verified(key TEXT, target TEXT, device TEXT, tile TEXT,"
    " source TEXT, shapes INTEGER, worst REAL, fault TEXT,"
    " PRIMARY KEY(key, device, tile, source)) WITHOUT ROWID;";

/* Reports the database's last error. Returns false. */
static bool fail(const struct tune_db *db)
{
    const int code = sqlite3_errcode(db->handle);
    const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    complain(EXIT_ENVIRONMENT, "%s: %s%s", db->path, sqlite3_errmsg(db->handle),
             damaged ? "; delete or move it, and the next run measures all anew; `sqlite3 FILE "
                       ".recover` may save what it has"
                     : "");
    return false;
}

/* Executes SQL without results. Returns false after a message. */
static bool execute(struct tune_db *db, const char *sql)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK || fail(db);
}

/* Implements the SQL function own_key(key): returns the key in the form of this version; a key that
 * no kernel has stays the same. `count` is 1. */
static void own_key(sqlite3_context *context, int count, sqlite3_value **values)
{
    const char *const key = (const char *)sqlite3_value_text(values[0]);
    char text[ATT_TEXT_MAX], why[ATTNC_KEY_WHY];
    (void)count;
    if (key && attnc_key_normalise(key, text, why))
        sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
    else
        sqlite3_result_value(context, values[0]);
}

/* Returns the version of the database's tables; -1 after a message. */
static int read_version(struct tune_db *db)
{
    sqlite3_stmt *s;
    int version = 0;
    if (sqlite3_prepare_v2(db->handle, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK) {
        fail(db);
        return -1;
    }
    if (sqlite3_step(s) == SQLITE_ROW)
        version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return version;
}

/* Converts a database of an earlier version to this version. Returns false after a message. */
static bool bring_up(struct tune_db *db)
{
    if (sqlite3_create_function(db->handle, "own_key", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
                                own_key, NULL, NULL) != SQLITE_OK)
        return fail(db);
    const int version = read_version(db);
    if (version > VERSION)
        complain(EXIT_ENVIRONMENT, "%s: a database of a later attnc", db->path);
    if (version < 0 || version > VERSION)
        return false;
    return version == VERSION || execute(db, "BEGIN IMMEDIATE;"
                                             "UPDATE OR REPLACE results SET key=own_key(key);"
                                             "UPDATE OR REPLACE verified SET key=own_key(key);"
                                             "PRAGMA user_version=1;"
                                             "COMMIT;");
}

struct tune_db *tune_db_open(const char *path, bool create)
{
    struct tune_db *db = calloc(1, sizeof(*db));
    if (!db || !(db->path = strdup(path))) {
        free(db);
        complain(EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
    bool good = sqlite3_open_v2(path, &db->handle, flags, NULL) == SQLITE_OK || fail(db);
    if (good)
        sqlite3_busy_timeout(db->handle, BUSY_MS);
    if (good && execute(db, schema) && bring_up(db))
        return db;
    tune_db_close(db);
    return NULL;
}

void tune_db_close(struct tune_db *db)
{
    if (!db)
        return;
    sqlite3_close(db->handle);
    free(db->path);
    free(db);
}

/* Prepares an SQL statement whose first parameters are the key, device, shape, tile and source of
 * `id`; without the shape if `shape` is false. Returns NULL after a message. */
static sqlite3_stmt *prepare(struct tune_db *db, const char *sql, const struct tune_id *id,
                             bool shape)
{
    sqlite3_stmt *s;
    int i = 0;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &s, NULL) != SQLITE_OK) {
        fail(db);
        return NULL;
    }
    sqlite3_bind_text(s, ++i, id->key, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, ++i, id->device, -1, SQLITE_STATIC);
    if (shape)
        sqlite3_bind_text(s, ++i, id->shape, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, ++i, id->tile, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, ++i, id->source, -1, SQLITE_STATIC);
    return s;
}

/* Copies a text column of the statement's current row to `fault`, `size` bytes. */
static void read_fault(sqlite3_stmt *s, int column, char *fault, size_t size)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    snprintf(fault, size, "%s", text ? (const char *)text : "");
}

/* Reads the first row of table "results" with this id into *v. `condition` replaces the comparison
 * of the device. Returns false if there is none. */
static bool find(struct tune_db *db, const char *condition, const struct tune_id *id,
                 struct tune_value *v)
{
    char sql[400];
    snprintf(sql, sizeof(sql),
             "SELECT cycles, us, us_low, us_high, runs, matrix_duty, memory_fraction, fault"
             " FROM results WHERE key=? AND %s AND shape=? AND tile=? AND source=?",
             condition);
    sqlite3_stmt *s = prepare(db, sql, id, true);
    const bool found = s && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        *v = (struct tune_value){
            .cycles = sqlite3_column_double(s, 0),
            .us = sqlite3_column_double(s, 1),
            .us_low = sqlite3_column_double(s, 2),
            .us_high = sqlite3_column_double(s, 3),
            .runs = sqlite3_column_int64(s, 4),
            .matrix_duty = sqlite3_column_double(s, 5),
            .memory_fraction = sqlite3_column_double(s, 6),
        };
        read_fault(s, 7, v->fault, sizeof(v->fault));
    }
    sqlite3_finalize(s);
    return found;
}

bool tune_db_find(struct tune_db *db, const struct tune_id *id, struct tune_value *v)
{
    return find(db, "device=?", id, v);
}

bool tune_db_find_measured(struct tune_db *db, const struct tune_id *id, struct tune_value *v)
{
    return find(db, "device<>? AND device NOT LIKE 'model %' AND fault=''", id, v);
}

bool tune_db_find_verdict(struct tune_db *db, const struct tune_id *id, struct tune_verdict *v)
{
    sqlite3_stmt *s = prepare(db,
                              "SELECT shapes, worst, fault FROM verified"
                              " WHERE key=? AND device=? AND tile=? AND source=?",
                              id, false);
    const bool found = s && sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        *v = (struct tune_verdict){.shapes = sqlite3_column_int64(s, 0),
                                   .worst = sqlite3_column_double(s, 1)};
        read_fault(s, 2, v->fault, sizeof(v->fault));
    }
    sqlite3_finalize(s);
    return found;
}

/* Executes a prepared statement that returns no rows, and frees it. Returns false after a message,
 * or if `s` is NULL. */
static bool finish(struct tune_db *db, sqlite3_stmt *s)
{
    const bool good = s && sqlite3_step(s) == SQLITE_DONE;
    if (s && !good)
        fail(db);
    sqlite3_finalize(s);
    return good;
}

/* Returns the length of the target's name, the first word of the key, as in "gfx950 prefill
 * ...". */
static int target_length(const struct tune_id *id) { return (int)strcspn(id->key, " "); }

bool tune_db_put(struct tune_db *db, const struct tune_id *id, const struct tune_value *v)
{
    sqlite3_stmt *s = prepare(db,
                              "INSERT OR REPLACE INTO results(key, device, shape, tile, source,"
                              " target, cycles, us, us_low, us_high, runs, matrix_duty,"
                              " memory_fraction, fault) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                              id, true);
    if (!s)
        return false;
    sqlite3_bind_text(s, 6, id->key, target_length(id), SQLITE_STATIC);
    sqlite3_bind_double(s, 7, v->cycles);
    sqlite3_bind_double(s, 8, v->us);
    sqlite3_bind_double(s, 9, v->us_low);
    sqlite3_bind_double(s, 10, v->us_high);
    sqlite3_bind_int64(s, 11, v->runs);
    sqlite3_bind_double(s, 12, v->matrix_duty);
    sqlite3_bind_double(s, 13, v->memory_fraction);
    sqlite3_bind_text(s, 14, v->fault, -1, SQLITE_STATIC);
    return finish(db, s);
}

bool tune_db_put_verdict(struct tune_db *db, const struct tune_id *id, const struct tune_verdict *v)
{
    sqlite3_stmt *s = prepare(db,
                              "INSERT OR REPLACE INTO verified(key, device, tile, source, target,"
                              " shapes, worst, fault) VALUES(?,?,?,?,?,?,?,?)",
                              id, false);
    if (!s)
        return false;
    sqlite3_bind_text(s, 5, id->key, target_length(id), SQLITE_STATIC);
    sqlite3_bind_int64(s, 6, v->shapes);
    sqlite3_bind_double(s, 7, v->worst);
    sqlite3_bind_text(s, 8, v->fault, -1, SQLITE_STATIC);
    return finish(db, s);
}

bool tune_db_merge(struct tune_db *db, const char *path)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(db->handle, "ATTACH ? AS other", -1, &s, NULL) != SQLITE_OK)
        return fail(db);
    sqlite3_bind_text(s, 1, path, -1, SQLITE_STATIC);
    if (!finish(db, s))
        return false;
    /* Rows are compared by tuples of merits; the row with the smaller tuple stays. */
    const bool good = execute(
        db, "BEGIN IMMEDIATE;"
            "INSERT OR REPLACE INTO results SELECT o.* FROM (SELECT own_key(key) AS key, target, "
            "device,"
            " shape, tile, source, cycles, us, us_low, us_high, runs, matrix_duty, memory_fraction,"
            " fault FROM other.results) o LEFT JOIN main.results m"
            " USING(key, device, shape, tile, source) WHERE m.key IS NULL OR"
            " (o.fault <> '', o.us_high - o.us_low, -o.runs, o.us, o.cycles, o.fault) <"
            " (m.fault <> '', m.us_high - m.us_low, -m.runs, m.us, m.cycles, m.fault);"
            "INSERT OR REPLACE INTO verified SELECT o.* FROM (SELECT own_key(key) AS key, target, "
            "device,"
            " tile, source, shapes, worst, fault FROM other.verified) o LEFT JOIN main.verified m"
            " USING(key, device, tile, source) WHERE m.key IS NULL OR"
            " (o.fault = '', -o.shapes, o.worst, o.fault) <"
            " (m.fault = '', -m.shapes, m.worst, m.fault);"
            "COMMIT;");
    if (!good)
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return execute(db, "DETACH other") && good;
}

/* Writes the database to a new file at `path`. It has no free pages and no counters of changes, so
 * that equal contents are equal bytes. Returns false after a message. */
static bool write_anew(struct tune_db *db, const char *path)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(db->handle, "VACUUM INTO ?", -1, &s, NULL) != SQLITE_OK)
        return fail(db);
    sqlite3_bind_text(s, 1, path, -1, SQLITE_STATIC);
    return finish(db, s);
}

bool tune_db_tidy(struct tune_db *db)
{
    char path[PATH_MAX], log[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s.tidy", db->path) >= (int)sizeof(path))
        return complain(EXIT_ENVIRONMENT, "%s: %s", db->path, strerror(ENAMETOOLONG)) == EXIT_GOOD;
    snprintf(log, sizeof(log), "%s-wal", db->path);
    unlink(path);
    if (!write_anew(db, path))
        return false;
    sqlite3_close(db->handle); /* the last connection removes the log */
    db->handle = NULL;
    if (!access(log, F_OK)) {
        unlink(path);
        return complain(EXIT_ENVIRONMENT, "%s: another program has it open", db->path) == EXIT_GOOD;
    }
    if (!rename(path, db->path))
        return true;
    return complain(EXIT_ENVIRONMENT, "%s: %s", db->path, strerror(errno)) == EXIT_GOOD;
}

/* Prints a field of a CSV file, in quotes if it has commas, quotes or line breaks. */
static void print_field(const char *text, FILE *out)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

/* Returns the text of a column in the statement's current row; "" if it is NULL. */
static const char *text_of(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

/* Prints the column names and all rows of a query as CSV. Returns SQLite's last result code. */
static int print_csv(sqlite3_stmt *s, FILE *out)
{
    const int columns = sqlite3_column_count(s);
    for (int i = 0; i < columns; i++)
        fprintf(out, "%s%s", i ? "," : "", sqlite3_column_name(s, i));
    putc('\n', out);
    int step;
    while ((step = sqlite3_step(s)) == SQLITE_ROW) {
        for (int i = 0; i < columns; i++) {
            fputs(i ? "," : "", out);
            print_field(text_of(s, i), out);
        }
        putc('\n', out);
    }
    return step;
}

/* The columns of the query that print_groups() prints. */
enum { KEY, PLACE, TILE, US, CYCLES, STATE };

/* Prints a column, indented by its number, if it differs from `last`, the text in the row above;
 * updates `last`. Returns true if it differs. */
static bool print_heading(sqlite3_stmt *s, int column, char *last, size_t size, FILE *out)
{
    const char *text = text_of(s, column);
    if (!strcmp(text, last))
        return false;
    snprintf(last, size, "%s", text);
    fprintf(out, "%*s%s\n", 2 * column, "", text);
    return true;
}

/* Prints each key, below it each device and shape, and below these the tiles, fastest first.
 * Returns SQLite's last result code. */
static int print_groups(sqlite3_stmt *s, FILE *out)
{
    char key[2048] = "", place[512] = "";
    int step;
    while ((step = sqlite3_step(s)) == SQLITE_ROW) {
        if (print_heading(s, KEY, key, sizeof(key), out))
            place[0] = '\0';
        print_heading(s, PLACE, place, sizeof(place), out);
        const char *state = text_of(s, STATE);
        fprintf(out, "%12.2f us %12.0f clk  %s%s%s\n", sqlite3_column_double(s, US),
                sqlite3_column_double(s, CYCLES), text_of(s, TILE), *state ? "  " : "", state);
    }
    return step;
}

bool tune_db_print(struct tune_db *db, bool csv, FILE *out)
{
    static const char all[] =
        "SELECT r.key, r.target, r.device, r.shape, r.tile, r.source, printf('%.0f', r.cycles) AS"
        " cycles, printf('%.2f', r.us) AS us, printf('%.2f', r.us_low) AS us_low,"
        " printf('%.2f', r.us_high) AS us_high, r.runs, printf('%.3f', r.matrix_duty) AS"
        " matrix_duty, printf('%.3f', r.memory_fraction) AS memory_fraction, r.fault,"
        " CASE WHEN v.key IS NULL THEN '' WHEN v.fault='' THEN 'yes' ELSE 'no' END AS verified"
        " FROM results r LEFT JOIN verified v USING(key, device, tile, source)";
    static const char some[] =
        "SELECT r.key, r.device || ': ' || r.shape, r.tile, r.us, r.cycles,"
        " CASE WHEN r.fault<>'' THEN r.fault WHEN v.key IS NULL THEN ''"
        " WHEN v.fault='' THEN 'verified' ELSE 'WRONG' END"
        " FROM results r LEFT JOIN verified v USING(key, device, tile, source)"
        " ORDER BY r.key, r.device, r.shape, r.fault<>'', r.us, r.tile";
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(db->handle, csv ? all : some, -1, &s, NULL) != SQLITE_OK)
        return fail(db);
    const int step = csv ? print_csv(s, out) : print_groups(s, out);
    sqlite3_finalize(s);
    return step == SQLITE_DONE || fail(db);
}
