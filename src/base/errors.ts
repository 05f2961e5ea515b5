// Every failure of the appliance: code, status and hint in one table. One catch in http/ and one in cli/ report a thrown Failure.

interface Row {
  /** HTTP status of the answer. */
  status: number;
  /** Default message, when the thrower gives none. */
  message: string;
  /** What to do about it. */
  hint: string;
  /** Whether trying the same again later can help. */
  retry?: boolean;
}

const row = (status: number, message: string, hint: string, retry = false): Row => ({ status, message, hint, retry });

export const failures = {
  // requests
  bad_request: row(400, "Bad request", "See /openapi.json for what this endpoint takes."),
  unauthorized: row(401, "Unknown API key", "Make one with `plumbline key create --user NAME`."),
  forbidden: row(403, "The key may not do this", "Use a key with the scope that the message names."),
  not_found: row(404, "Not found", "Ids are those the API gave out; another user's are not found either."),
  unknown_path: row(
    404,
    "No such path",
    "/docs and /openapi.json name them all: they begin with /api/v3, of inference also with /v1.",
  ),
  method_not_allowed: row(405, "Method not allowed", "See /openapi.json for the methods of this path."),
  request_timeout: row(408, "The request did not arrive in time", "Send it again, faster.", true),
  conflict: row(409, "The resource is not in a state that allows this", "Read its status first."),
  request_in_progress: row(
    409,
    "The first request with this Idempotency-Key is still under way",
    "Send it again after Retry-After: it is answered as the first one is.",
    true,
  ),
  snapshot_gone: row(
    409,
    "The snapshot of a document was deleted from the project",
    "Create an alignment of the documents that there are, and auto-align that.",
  ),
  auto_align_unmeasurable: row(
    422,
    "There is nothing to measure an auto-align by",
    "Give it a benchmark_id, or create the project with one: sealed questions about three facts at least, and some for dev.",
  ),
  under_way: row(409, "It is still being worked on", "Stop it, or wait for its end; then delete it."),
  in_use: row(409, "Something else needs it", "The message says what: delete that first, or wait for its end."),
  still_deployed: row(
    409,
    "The model is deployed",
    "POST /api/v3/models/undeploy-model/{model_id} first, and wait until it is UNDEPLOYED.",
  ),
  still_promoted: row(
    409,
    "The model is promoted",
    "Promote another model on its line, or roll it back with POST /api/v3/models/{model_id}/rollback; then delete it.",
  ),
  too_large: row(413, "The request is too large", "Send less at once, or raise the limit in the settings."),
  unsupported_media_type: row(
    415,
    "Unsupported media type",
    "Send application/json, or multipart/form-data for uploads.",
  ),
  already_claimed: row(409, "The appliance is claimed already", "Ask whoever claimed it for a key."),
  claim_expired: row(
    410,
    "The token of this link has expired",
    "Start `plumbline serve` again for a new one, or run `plumbline key create --user NAME`.",
  ),
  made_and_deleted: row(
    410,
    "What the first request with this Idempotency-Key made was deleted since",
    "Send it with a new Idempotency-Key to make it again.",
  ),
  misdirected: row(421, "This host name is not served here", "Add it to PLUMBLINE_ALLOWED_HOSTS."),
  validation: row(422, "The request does not fit the contract", "`detail` names each field."),
  idempotency_key_reused: row(
    422,
    "The Idempotency-Key was sent with another request before",
    "A new request takes a new key; the same key goes with the same path, query and body only.",
  ),
  too_many_connections: row(
    503,
    "This address has too many connections open",
    "Close some, send requests one after the other on one, or raise PLUMBLINE_CONNECTIONS_PER_ADDRESS.",
    true,
  ),
  headers_too_large: row(431, "Too many or too large headers", "Send fewer."),
  too_many_requests: row(429, "Too many requests", "Wait as long as Retry-After says.", true),
  cut_off: row(503, "The request was cut off", "The client left, or the appliance went down; send it again.", true),
  internal: row(500, "Internal error", "Look for the request id in the log."),
  // resources
  base_model_unsupported: row(
    400,
    "The base model does not support alignment",
    "GET /models/base says which do, and why not.",
  ),
  hub_unavailable: row(
    400,
    "The model cannot be fetched",
    "The message says why. Import it from a file with `plumbline model import`, or set PLUMBLINE_HUB_MIRROR to a mirror that has it.",
  ),
  mirror_unreachable: row(
    502,
    "The mirror of the hub does not answer",
    "Check PLUMBLINE_HUB_MIRROR and the network between; a file of the model can be imported with `plumbline model import` meanwhile.",
    true,
  ),
  already_terminal: row(400, "The alignment has already ended", "Read its status."),
  not_started: row(
    400,
    "The alignment has not started training",
    "DELETE /api/v3/alignment-projects/{alignment_id} cancels one that is queued or preparing.",
  ),
  no_aligned_models: row(404, "No aligned models found", "Create an alignment project first."),
  first_model_under_way: row(
    404,
    "No aligned models found",
    "Your first alignment is under way: GET /api/v3/alignment says how far it is, and its model is here once it is COMPLETED.",
  ),
  not_deployed: row(409, "The model is not deployed", "POST /api/v3/models/deploy-model/{model_id} first."),
  promotion_refused: row(
    409,
    "The model does worse than what it would replace",
    "`detail` lists the items; POST evaluations/compare shows all. Promote it all the same with `override` and a `reason`.",
  ),
  several_lines: row(409, "The model is promoted on several lines", "Name one of them in `line`."),
  stop_rejected: row(502, "The run rejected the stop request", "Read the run's events."),
  stop_unreachable: row(503, "The run does not answer", "It is killed if it stays silent; read its status.", true),
  benchmark_invalid: row(
    422,
    "The benchmark cannot be used",
    "The message names the row and the field, or what the making of one lacked.",
  ),
  benchmark_limit: row(
    422,
    "The benchmark takes too much time or memory to read",
    "Leave out what is no item, or split it into several benchmarks.",
  ),
  no_item_left: row(
    409,
    "The benchmark would have no item left",
    "Leave one at least, or upload a new benchmark in its place.",
  ),
  document_invalid: row(
    422,
    "The document cannot be read",
    "Open it in its own program, repair it, and export it again.",
  ),
  document_encrypted: row(422, "The document is encrypted", "Remove its password and upload it again."),
  document_no_text: row(
    422,
    "No page of the document has text",
    "Install tesseract-ocr so that scanned pages are read, or upload a file with text in it.",
  ),
  archive_limit: row(422, "The archive unpacks to more than is read", "Split the document, or export it again."),
  entities_refused: row(422, "The document declares XML entities", "Export it again from the program that made it."),
  too_many_pages: row(422, "The document has too many pages", "Split it into smaller files."),
  document_type: row(
    415,
    "Files of this kind are not read",
    "Export it as PDF, DOCX, PPTX, XLSX, HTML, Markdown, EPUB, e-mail, CSV, JSON or text, and upload that.",
  ),
  extension_mismatch: row(
    415,
    "The file is not what its name says",
    "Rename it to what it is, or upload the right one.",
  ),
  document_limit: row(422, "The document takes too much time or memory to read", "Split it into smaller files."),
  disk_full: row(
    507,
    "The disk is too full for new work",
    "Free space under PLUMBLINE_DATA; reading still works.",
    true,
  ),
  // engine
  load_cooling: row(503, "The model could not be loaded", "Try again after Retry-After, or deploy the model.", true),
  load_ended_appliance: row(
    409,
    "Loading this model ended the appliance; it is not loaded again by itself",
    "Import its file again with `plumbline model import`: that tries it in a process of its own first. Or use another file.",
  ),
  model_load_failed: row(500, "The model could not be loaded", "Run `plumbline doctor`; import the file again."),
  model_invalid: row(
    422,
    "The file is not a sound GGUF model",
    "Export or download it again; the message says what is wrong.",
  ),
  model_file_type: row(
    422,
    "The file is no model",
    "A base model is a GGUF file, or a sentence-transformers folder with config.json and model.safetensors.",
  ),
  file_missing: row(
    404,
    "There is no such file on this machine",
    "Check the path: it is one of the machine that plumbline runs on, and its user must be able to read it.",
  ),
  out_of_memory: row(
    503,
    "Not enough memory",
    "Undeploy a model, or raise PLUMBLINE_MEMORY, of a GPU PLUMBLINE_GPU_MEMORY.",
    true,
  ),
  engine_busy: row(503, "All seats and the queue are full", "Try again after Retry-After.", true),
  prompt_too_long: row(422, "The prompt does not fit the context", "Shorten it, or raise PLUMBLINE_SEAT_CONTEXT."),
  engine_unusable: row(
    500,
    "The inference library does not run here",
    "`plumbline doctor` says what is lacking; in a source tree run ./install.sh first.",
  ),
  inference_failed: row(
    500,
    "The model failed while it answered",
    "Try again; look for the request id in the log.",
    true,
  ),
  template_failed: row(
    422,
    "The model's chat template does not render this conversation",
    "Use the roles and the order that the model was trained on.",
  ),
  upstream_failed: row(
    502,
    "The upstream did not answer as it should",
    "Look for the request id in the log; leave X-Provider out to be answered here.",
    true,
  ),
  wrong_kind: row(
    422,
    "The model does not do this",
    "GET /models/base says what each model is for: text, embedding or rerank.",
  ),
  not_loaded: row(409, "The model is not loaded", "Deploy it first."),
  // runs
  run_locked: row(409, "Another process holds this run", "Wait for it, or end it."),
  run_folder_invalid: row(422, "The run folder does not fit its contract", "The message names the file and field."),
  run_failed: row(500, "The run failed", "Read events.jsonl and the trainer's log in the run folder."),
  run_crashed: row(500, "The run ended without a result", "Read events.jsonl in the run folder."),
  supervisor_restart: row(500, "The appliance restarted too often under this work", "Read the log of the appliance."),
  no_training_rows: row(
    422,
    "The documents gave no training rows",
    "Upload documents that state facts in sentences or tables.",
  ),
  benchmark_leak: row(
    422,
    "Benchmark questions stand in the training rows",
    "The report names them; remove them from the documents.",
  ),
  adapter_unfaithful: row(
    500,
    "The adapter does not serve as it was trained",
    "The report has the figures; please report a bug.",
  ),
  trainer_missing: row(
    500,
    "The trainer is missing",
    "In a source tree ./install.sh builds it; a release writes it anew when plumbline is started again.",
  ),
  trainer_died: row(500, "The trainer ended", "The message has its last words."),
  trainer_error: row(500, "The trainer refused a request", "The message has its code and hint."),
  not_ready: row(503, "Not every deployed model serves yet", "Wait, or read the models' errors.", true),
  // cli and start
  data_locked: row(409, "Another plumbline uses this data folder", "Stop it, or choose another PLUMBLINE_DATA."),
  data_missing: row(404, "There is no data of plumbline", "Name its folder, or set PLUMBLINE_DATA."),
  restore_unfinished: row(
    409,
    "A restore into this data folder was cut off",
    "Run the same `plumbline restore` again, which goes on from there; or empty the folder.",
  ),
  not_root: row(403, "Only root may do this", "Run it as root, or see what it would do with --dry-run."),
  not_installed: row(404, "There is no installation", "`plumbline install` makes one; --prefix says where it is."),
  installed_already: row(
    409,
    "Another version is installed",
    "Replace it with `plumbline upgrade FILE`, or remove it first with `plumbline uninstall`, which keeps the data.",
  ),
  install_failed: row(
    500,
    "A step of the installation failed",
    "The message says which and why; run the same command again, and what is done already is left alone.",
  ),
  program_invalid: row(422, "The file is no program of plumbline", "Name the file of a release of plumbline."),
  upgrade_refused: row(
    409,
    "The upgrade is refused",
    "Only a newer version can replace the one that is installed; an older one needs a backup that it made.",
  ),
  upgrade_failed: row(
    500,
    "The upgrade failed, and the old version is back",
    "The message says what happened; the service's log has more.",
  ),
  upgrade_unfinished: row(
    409,
    "An upgrade was cut off",
    "Finish it with `plumbline upgrade --resume`, or put the old version back with `plumbline upgrade --undo`.",
  ),
  upgrade_on_trial: row(
    503,
    "An upgrade is trying out this version, and refuses writes until it is done",
    "Send it again after Retry-After. If writes are still refused after a few minutes, the upgrade was cut off: run `plumbline upgrade --resume` or `--undo`.",
    true,
  ),
  upgrade_locked: row(409, "Another upgrade is under way", "Wait for its end.", true),
  backup_locked: row(409, "Another backup or restore uses this folder", "Wait for its end.", true),
  backup_invalid: row(422, "It is no sound backup", "`plumbline verify` names what does not fit; use another one."),
  backup_incomplete: row(
    500,
    "The data folder lacks something that it should have",
    "`plumbline verify` lists all of it. Delete what it belongs to, or restore an older backup.",
  ),
  backup_no_space: row(
    507,
    "There is no room for the backup",
    "Free some, and run it again: what was copied into a folder already is not copied again.",
    true,
  ),
  bundle_invalid: row(
    422,
    "It is no bundle of plumbline",
    "Name the file that `plumbline bundle create` made; if it is that file, copy it here again.",
  ),
  bundle_truncated: row(422, "The bundle is cut off", "Copy it here again, to the end."),
  bundle_altered: row(
    422,
    "The bundle was altered",
    "Nothing of it was used. Copy it here again; if that does not help, ask whoever made it for its SHA-256.",
  ),
  bundle_expired: row(
    422,
    "The bundle has expired",
    "Ask for a new one. If the clock of this machine is wrong, set it.",
  ),
  bundle_not_yet_valid: row(
    422,
    "The bundle was made later than now",
    "Set the clock of this machine: by a wrong one nobody can tell whether a bundle has expired.",
  ),
  bundle_other_machine: row(422, "The bundle is for another machine", "Ask for one that is made for this machine."),
  bundle_key_unpinned: row(
    422,
    "The bundle is signed with a key that is not pinned",
    "Pin a key only if you have it from its holder by another way than with the bundle: in PLUMBLINE_BUNDLE_KEYS, or with --trust.",
  ),
  bundle_key_missing: row(
    400,
    "No key is pinned that a bundle could be signed with",
    "Set PLUMBLINE_BUNDLE_KEYS to the public key that `plumbline bundle key` printed for whoever makes your bundles, or give it as --trust.",
  ),
  bundle_key_invalid: row(
    422,
    "It is no key to sign with",
    "`plumbline bundle key FILE` makes one; --sign-with takes that file.",
  ),
  bundle_no_space: row(507, "There is no room for what is in the bundle", "Free some, and run it again.", true),
  bundle_locked: row(409, "Another process applies a bundle here", "Wait for its end.", true),
  not_a_release: row(
    409,
    "This is no release, and only a release can be bundled",
    "`npm run release` makes one; run `bundle create` of that file.",
  ),
  folder_not_empty: row(400, "The folder is not empty", "Name one that is empty, or that is not there yet."),
  config_invalid: row(
    500,
    "A setting is not valid",
    "The end of `plumbline --help` names the file that lists every setting with its default.",
  ),
  schema_too_new: row(500, "The database is of a newer plumbline", "Install that version, or restore a backup."),
  usage: row(400, "The command line is not understood", "Add --help to see what the verb takes."),
  interrupted: row(500, "Stopped before the end", "Start it again when it suits."),
  address_taken: row(500, "The address is taken", "Stop what listens there, or choose another PLUMBLINE_PORT."),
  release_damaged: row(
    500,
    "The executable is damaged",
    "Copy it here again, and compare its SHA-256 with the published one.",
  ),
  unpacking_failed: row(
    500,
    "What the executable carries cannot be unpacked",
    "Set PLUMBLINE_DATA to a folder that may be written to and run from, with 2 GiB free.",
  ),
  serve_failed: row(500, "The appliance did not come up", "Run `plumbline serve` by itself and read its log."),
  api_unreachable: row(
    503,
    "No appliance answers",
    "Start `plumbline serve`, or name where it listens in PLUMBLINE_ADDRESS.",
    true,
  ),
  key_missing: row(
    400,
    "There is no API key to ask with",
    "Make one at the machine with `plumbline key create --user NAME --save`, or set PLUMBLINE_KEY.",
  ),
  work_failed: row(500, "The work ended without what was asked for", "The message says why; so does its record."),
  api_refused: row(500, "The appliance refused a request", "The message has its answer."),
  demo_failed: row(500, "The demo did not reach its end", "Run it again with --dir FOLDER --keep, and look inside."),
} satisfies Record<string, Row>;

export type FailureCode = keyof typeof failures;

/** One entry of the contract's validation body. */
export interface ValidationDetail {
  loc: (string | number)[];
  msg: string;
  type: string;
  /** What `msg` says, field by field, where a client shows more than the sentence. */
  ctx?: Record<string, string | null>;
}

export class Failure extends Error {
  readonly code: FailureCode;
  readonly details: ValidationDetail[] | null;
  readonly retryAfterSeconds: number | null;
  /** Facts for the log, never for the client. */
  readonly context: Record<string, unknown>;

  constructor(
    code: FailureCode,
    message?: string,
    options: {
      details?: ValidationDetail[];
      retryAfterSeconds?: number;
      context?: Record<string, unknown>;
      cause?: unknown;
    } = {},
  ) {
    super(message ?? failures[code].message, { cause: options.cause });
    this.name = "Failure";
    this.code = code;
    this.details = options.details ?? null;
    this.retryAfterSeconds = options.retryAfterSeconds ?? null;
    this.context = options.context ?? {};
  }

  get status(): number {
    return failures[this.code].status;
  }

  get hint(): string {
    return failures[this.code].hint;
  }
}

/** A 422 about one field, in the contract's form. */
export function invalid(loc: (string | number)[], msg: string, type = "value_error"): Failure {
  return new Failure("validation", `${loc.join(".")}: ${msg}`, { details: [{ loc, msg, type }] });
}
