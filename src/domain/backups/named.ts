// Lists the files of a data folder that its database names, with their current place, their place after a restore, and their hash.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { contentPaths, places } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { openStore, openToRead, type Store } from "../../store/open.ts";
import { copyDatabase, currentVersion, schemaVersion } from "../../store/snapshot.ts";
import { prepareNamed, preparePlacing } from "./store.ts";

export interface NamedFile {
  /** What the file is, for messages. */
  what: string;
  /** Path within a restored data folder. */
  path: string;
  /** Where the file is now. */
  source: string;
  sha256: string;
}

export interface Named {
  /** Each path once. */
  files: NamedFile[];
  /** Alignments whose run folders are kept. A `live` alignment cannot continue without its folder. */
  runs: { id: string; live: boolean }[];
}

/** Throws schema_too_new. */
export function refuseNewer(version: number): void {
  const known = currentVersion();
  if (version > known)
    throw new Failure("schema_too_new", `Its database has version ${version}; this plumbline supports up to ${known}`);
}

/**
 * Reads which files an intact database names. A database of an older plumbline is copied and only the copy is migrated.
 * Throws schema_too_new.
 */
export async function readNamed(database: string, data: string): Promise<Named> {
  const version = schemaVersion(database);
  refuseNewer(version);
  if (version === currentVersion()) return reading(openToRead(database), data);
  const folder = await mkdtemp(join(tmpdir(), "plumbline-older-"));
  try {
    const copy = join(folder, basename(database));
    copyDatabase(database, copy);
    return reading(openStore(copy), data);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the number of alignments whose work has not ended. */
export const runsUnderWay = async (data: string): Promise<number> =>
  (await readNamed(places(data).database, data)).runs.filter(({ live }) => live).length;

function reading(store: Store, data: string): Named {
  try {
    return namedIn(store, data);
  } finally {
    store.close();
  }
}

function namedIn(store: Store, data: string): Named {
  const sql = prepareNamed(store);
  const at = places(data);
  const blob = (what: string, sha256: string): NamedFile => {
    const source = join(at.blobs, contentPaths.blob(sha256));
    return { what, path: relative(data, source), source, sha256 };
  };
  const model = (what: string, source: string, place: string, sha256: string): NamedFile => ({
    what,
    path: relative(data, join(at.models, place)),
    source,
    sha256,
  });
  const files = [
    ...sql.documents
      .all()
      .flatMap((row) => [
        blob(`document ${row.id}`, row.sha256),
        blob(`the text of document ${row.id}`, row.text_sha256),
        ...(row.structure_sha256 === null ? [] : [blob(`the structure of document ${row.id}`, row.structure_sha256)]),
      ]),
    ...sql.bases.all().map((row) => model(`base model ${row.id}`, row.path, contentPaths.base(row.sha256), row.sha256)),
    ...sql.aligned.all().flatMap((row) => {
      const { sources_path: sources } = row;
      const adapter = contentPaths.adapter(row.adapter_sha256);
      return [
        model(`the adapter of model ${row.id}`, row.adapter_path, adapter, row.adapter_sha256),
        ...(sources === null
          ? []
          : [model(`the sources of model ${row.id}`, sources, contentPaths.sources(hashOf(sources)), hashOf(sources))]),
      ];
    }),
  ];
  return {
    files: [...new Map(files.map((file) => [file.path, file])).values()],
    runs: sql.alignments.all().map(({ id, live }) => ({ id, live: live === 1 })),
  };
}

/** Returns the hash of a sources file, which is in its name. */
const hashOf = (sourcesPath: string): string => basename(sourcesPath, ".json");

/** Changes the paths in a restored database from the files' former places to their places in `data`. */
export function placeFiles(store: Store, data: string): void {
  const sql = preparePlacing(store);
  const at = (place: string): string => join(places(data).models, place);
  store.transaction(() => {
    for (const { id, sha256 } of sql.bases.all()) sql.placeBase.run(at(contentPaths.base(sha256)), id);
    for (const { id, adapter_sha256, sources_path } of sql.aligned.all()) {
      const sources = sources_path === null ? null : at(contentPaths.sources(hashOf(sources_path)));
      sql.placeAligned.run(at(contentPaths.adapter(adapter_sha256)), sources, id);
    }
  });
}
