// Every failure of the appliance, with its code, HTTP status and hint in one table. The server answers a request
// with the Failure that its handler throws, and the command line prints it.

interface Row {
  /** HTTP status of the answer. */
  status: number;
  /** Default message, when the thrower gives none. */
  message: string;
  /** What the user can do about the failure. */
  hint: string;
  /** Whether the same request can succeed later. */
  retry?: boolean;
}

const row = (status: number, message: string, hint: string, retry = false): Row => ({ status, message, hint, retry });

export const failures = {
  // requests
  bad_request: row(400, "Bad request", "See /openapi.json for what this endpoint accepts."),
  unauthorized: row(401, "Unknown API key", "Create a key with `plumbline key create --user NAME`."),
  forbidden: row(
    403,
    "The key lacks the permission for this",
    "The message says why. If a scope is missing, use a key that has it; a key with the scope admin can create one.",
  ),
  not_found: row(
    404,
    "Not found",
    "Use an id that the API returned. Ids of other users are reported as not found, too.",
  ),
  unknown_path: row(
    404,
    "No such path",
    "See /docs or /openapi.json for all paths. They begin with /api/v3; inference paths also exist under /v1.",
  ),
  method_not_allowed: row(405, "Method not allowed", "See /openapi.json for the methods that this path accepts."),
  request_timeout: row(408, "The request did not arrive in time", "Send it again over a faster connection.", true),
  conflict: row(409, "The resource is not in a state that allows this", "Check its status first."),
  request_in_progress: row(
    409,
    "The first request with this Idempotency-Key is still in progress",
    "Send it again after Retry-After: it gets the same answer as the first request.",
    true,
  ),
  snapshot_gone: row(
    409,
    "The snapshot of a document was deleted from the project",
    "Create a new alignment from the documents that still exist, and auto-align that one.",
  ),
  auto_align_unmeasurable: row(
    422,
    "No benchmark is available to measure the auto-align",
    "Give it a benchmark_id, or create the project with one. The benchmark needs sealed questions about at least three facts, and some dev questions.",
  ),
  under_way: row(409, "Work on it is still in progress", "Stop it or wait until it ends, then delete it."),
  in_use: row(409, "Something else depends on it", "The message says what: delete that first, or wait until it ends."),
  still_deployed: row(
    409,
    "The model is deployed",
    "Undeploy it with POST /api/v3/models/undeploy-model/{model_id}, wait until it is UNDEPLOYED, and try again.",
  ),
  still_promoted: row(
    409,
    "The model is promoted",
    "Promote another model to its channel, or roll it back with POST /api/v3/models/{model_id}/rollback. Then delete it.",
  ),
  too_large: row(413, "The request is too large", "Send less at once, or raise the limit in the settings."),
  unsupported_media_type: row(
    415,
    "Unsupported media type",
    "Send application/json, or multipart/form-data for uploads.",
  ),
  already_claimed: row(409, "The appliance has already been claimed", "Ask the person who claimed it for a key."),
  claim_expired: row(
    410,
    "The token in this link has expired",
    "Restart `plumbline serve` to get a new link, or run `plumbline key create --user NAME`.",
  ),
  made_and_deleted: row(
    410,
    "What the first request with this Idempotency-Key created has since been deleted",
    "Send the request with a new Idempotency-Key to create it again.",
  ),
  misdirected: row(
    421,
    "This server does not answer to this host name",
    "Add the host name to PLUMBLINE_ALLOWED_HOSTS, or set PLUMBLINE_PUBLIC_URL.",
  ),
  validation: row(422, "The request does not match the contract", "`detail` lists each field."),
  idempotency_key_reused: row(
    422,
    "This Idempotency-Key was already used for a different request",
    "Use a new key for a new request. Repeat a key only with the same path, query and body.",
  ),
  too_many_connections: row(
    503,
    "This address has too many connections open",
    "Close some, send requests one after another over one connection, or raise PLUMBLINE_CONNECTIONS_PER_ADDRESS.",
    true,
  ),
  headers_too_large: row(431, "The headers are too many or too large", "Send fewer or shorter headers."),
  too_many_requests: row(429, "Too many requests", "Wait as long as Retry-After says.", true),
  cut_off: row(
    503,
    "The request was cut off",
    "The client disconnected or the appliance stopped; send it again.",
    true,
  ),
  internal: row(500, "Internal error", "Search the log for the request id."),
  // resources
  base_model_unsupported: row(
    400,
    "The base model does not support alignment",
    "GET /models/base lists which models do, and why others do not.",
  ),
  hub_unavailable: row(
    400,
    "The model cannot be fetched",
    "The message says why. Import the model from a file with `plumbline model import`, or set PLUMBLINE_HUB_MIRROR to a mirror that has it.",
  ),
  mirror_unreachable: row(
    502,
    "The mirror of the model hub does not answer",
    "Check PLUMBLINE_HUB_MIRROR and the network. Meanwhile you can import a model from a file with `plumbline model import`.",
    true,
  ),
  already_terminal: row(400, "The alignment has already ended", "Check its status."),
  not_started: row(
    400,
    "The alignment has not started training",
    "DELETE /api/v3/alignment-projects/{alignment_id} cancels one that is queued or preparing.",
  ),
  no_aligned_models: row(404, "No aligned models found", "Create an alignment project first."),
  first_model_under_way: row(
    404,
    "No aligned models found",
    "Your first alignment is in progress: GET /api/v3/alignment shows its progress, and its model appears here once it is COMPLETED.",
  ),
  not_deployed: row(
    409,
    "The model is not deployed",
    "Deploy it with POST /api/v3/models/deploy-model/{model_id} first.",
  ),
  promotion_refused: row(
    409,
    "The model scores worse than the one it would replace",
    "`detail` lists the items; POST evaluations/compare shows all of them. To promote the model anyway, send `override` and a `reason`.",
  ),
  several_channels: row(409, "The model is promoted to several channels", "Name one of them in `channel`."),
  stop_rejected: row(502, "The run rejected the stop request", "Read the run's events for the reason."),
  stop_unreachable: row(
    503,
    "The run does not answer",
    "The run is killed if it stays silent; check its status.",
    true,
  ),
  benchmark_invalid: row(
    422,
    "The benchmark cannot be used",
    "The message names the row and the field, or says what was missing to create the benchmark.",
  ),
  benchmark_limit: row(
    422,
    "The benchmark takes too much time or memory to read",
    "Remove everything that is not an item, or split it into several benchmarks.",
  ),
  no_item_left: row(
    409,
    "The benchmark would have no items left",
    "Leave at least one item, or upload a new benchmark instead.",
  ),
  document_invalid: row(
    422,
    "The document cannot be read",
    "Open it in the program that made it, repair it, and export it again.",
  ),
  document_encrypted: row(422, "The document is encrypted", "Remove its password and upload it again."),
  document_no_text: row(
    422,
    "The document has no page with text",
    "Install tesseract-ocr to read scanned pages, or upload a file that contains text.",
  ),
  archive_limit: row(422, "The archive unpacks to more data than the limit", "Split the document, or export it again."),
  entities_refused: row(422, "The document declares XML entities", "Export it again from the program that made it."),
  too_many_pages: row(422, "The document has too many pages", "Split it into smaller files."),
  document_type: row(
    415,
    "Files of this type are not supported",
    "Export it as PDF, DOCX, PPTX, XLSX, HTML, Markdown, EPUB, e-mail, CSV, JSON or text, and upload that.",
  ),
  extension_mismatch: row(
    415,
    "The file's content does not match its name",
    "Rename the file to match its content, or upload the right one.",
  ),
  document_limit: row(422, "The document takes too much time or memory to read", "Split it into smaller files."),
  disk_full: row(
    507,
    "The disk is too full for new work",
    "Free some space under PLUMBLINE_DATA; reading still works.",
    true,
  ),
  // engine
  load_cooling: row(503, "The model could not be loaded", "Try again after Retry-After, or deploy the model.", true),
  load_ended_appliance: row(
    409,
    "Loading this model crashed the appliance, so it is not loaded again automatically",
    "Import its file again with `plumbline model import`, which tests it in a separate process first. Or use another file.",
  ),
  model_load_failed: row(500, "The model could not be loaded", "Run `plumbline doctor`, then import the file again."),
  model_invalid: row(
    422,
    "The file is not a valid GGUF model",
    "The message says what is wrong. Export or download the file again.",
  ),
  model_file_type: row(
    422,
    "The file is not a model",
    "A base model is a GGUF file, or a sentence-transformers folder with config.json and model.safetensors.",
  ),
  file_missing: row(
    404,
    "The file does not exist on this machine",
    "Check the path. It must be on the machine that plumbline runs on, and plumbline's user must be able to read it.",
  ),
  out_of_memory: row(
    503,
    "Not enough memory",
    "Undeploy a model, or raise PLUMBLINE_MEMORY (on a GPU, PLUMBLINE_GPU_MEMORY).",
    true,
  ),
  engine_busy: row(503, "All slots and the queue are full", "Try again after Retry-After.", true),
  prompt_too_long: row(422, "The prompt does not fit the context", "Shorten it, or raise PLUMBLINE_SLOT_CONTEXT."),
  engine_unusable: row(
    500,
    "The inference library does not run on this machine",
    "Run `plumbline doctor` to see what is missing; in a source tree, run ./install.sh first.",
  ),
  inference_failed: row(
    500,
    "The model failed while generating the answer",
    "Try again; if it fails again, search the log for the request id.",
    true,
  ),
  template_failed: row(
    422,
    "The model's chat template cannot render this conversation",
    "Use the roles, and the order of roles, that the model was trained on.",
  ),
  upstream_failed: row(
    502,
    "The upstream server did not answer correctly",
    "Search the log for the request id, or omit X-Provider to get an answer from this appliance.",
    true,
  ),
  wrong_kind: row(
    422,
    "The model does not support this",
    "GET /models/base lists what each model is for: text, embedding or rerank.",
  ),
  not_loaded: row(409, "The model is not loaded", "Deploy the model first."),
  // runs
  run_locked: row(409, "Another process holds this run", "Wait until that process ends, or end it."),
  run_folder_invalid: row(
    422,
    "The run folder does not match its contract",
    "The message names the file and the field.",
  ),
  run_failed: row(500, "The run failed", "Read events.jsonl and run.log in the run folder."),
  run_crashed: row(500, "The run ended without a result", "Read events.jsonl in the run folder."),
  supervisor_restart: row(500, "The appliance restarted too many times during this work", "Read the appliance's log."),
  no_training_rows: row(
    422,
    "No training rows could be made from the documents",
    "Upload documents that state facts in sentences or tables.",
  ),
  benchmark_leak: row(
    422,
    "The training rows contain benchmark questions",
    "The report lists them; remove them from the documents.",
  ),
  adapter_unfaithful: row(
    500,
    "The adapter does not behave in serving as it did in training",
    "The report has the figures. Please report this as a bug.",
  ),
  trainer_missing: row(
    500,
    "The trainer is missing",
    "In a source tree, run ./install.sh to build it. A release unpacks it again when plumbline restarts.",
  ),
  trainer_died: row(500, "The trainer process ended", "The message has its last output."),
  trainer_error: row(500, "The trainer refused a request", "The message has the trainer's error code and hint."),
  not_ready: row(503, "Not every deployed model is serving yet", "Wait, or check the models' errors.", true),
  // cli and start
  data_locked: row(
    409,
    "Another plumbline process uses this data folder",
    "Stop that process, or choose another PLUMBLINE_DATA.",
  ),
  data_missing: row(404, "The folder has no plumbline data", "Name the data folder, or set PLUMBLINE_DATA."),
  restore_unfinished: row(
    409,
    "A restore into this data folder was cut off",
    "Run the same `plumbline restore` again to continue it, or empty the folder.",
  ),
  restore_denied: row(
    403,
    "This user may not restore the backup",
    "Run it as root, which gives every restored file to the folder's owner, or name a backup that this user can read and a folder that it can write.",
  ),
  not_root: row(403, "This requires root", "Run it as root, or use --dry-run to see what it would do."),
  not_installed: row(
    404,
    "No installation of plumbline was found",
    "Run `plumbline install` first. If it is installed elsewhere, name the place with --prefix.",
  ),
  installed_already: row(
    409,
    "Another version is already installed",
    "Replace it with `plumbline upgrade FILE`, or remove it with `plumbline uninstall`, which keeps the data.",
  ),
  install_failed: row(
    500,
    "A step of the installation failed",
    "The message says which step and why. Run the same command again; steps that are already done are skipped.",
  ),
  program_invalid: row(422, "The file is not a plumbline executable", "Name the file of a plumbline release."),
  upgrade_refused: row(
    409,
    "The upgrade is refused",
    "An upgrade can only install a newer version. To go back to an older version, restore a backup made by that version.",
  ),
  upgrade_failed: row(
    500,
    "The upgrade failed, and the old version is running again",
    "The message says what happened; the service's log has more.",
  ),
  upgrade_unfinished: row(
    409,
    "An upgrade was cut off",
    "Finish it with `plumbline upgrade --resume`, or return to the old version with `plumbline upgrade --undo`.",
  ),
  upgrade_on_trial: row(
    503,
    "Writes are refused while an upgrade tests this version",
    "Send it again after Retry-After. If writes are still refused after a few minutes, the upgrade was cut off: run `plumbline upgrade --resume` or `--undo`.",
    true,
  ),
  upgrade_locked: row(409, "Another upgrade is in progress", "Wait until it ends.", true),
  backup_locked: row(409, "Another backup or restore uses this folder", "Wait until it ends.", true),
  backup_invalid: row(
    422,
    "The backup is damaged or incomplete",
    "Run `plumbline verify` to see what is wrong, and use another backup.",
  ),
  backup_incomplete: row(
    500,
    "The data folder lacks files or rows that it should have",
    "Run `plumbline verify` to list what is missing. Delete the resources that it belongs to, or restore an older backup.",
  ),
  backup_no_space: row(
    507,
    "There is not enough space for the backup",
    "Free some space and run it again: files that were already copied into a folder are not copied again.",
    true,
  ),
  bundle_invalid: row(
    422,
    "The file is not a plumbline bundle",
    "Name a file made by `plumbline bundle create`. If this is one, copy it here again.",
  ),
  bundle_truncated: row(422, "The bundle is incomplete", "Copy the whole file here again."),
  bundle_altered: row(
    422,
    "The bundle was altered",
    "Nothing from it was used. Copy the file here again; if that does not help, compare its SHA-256 with its maker's.",
  ),
  bundle_expired: row(422, "The bundle has expired", "Ask for a new one. If this machine's clock is wrong, set it."),
  bundle_not_yet_valid: row(
    422,
    "The bundle's creation time is in the future",
    "Set this machine's clock: with a wrong clock, plumbline cannot tell whether a bundle has expired.",
  ),
  bundle_other_machine: row(422, "The bundle is for another machine", "Ask for a bundle made for this machine."),
  bundle_key_unpinned: row(
    422,
    "The bundle is signed with a key that is not pinned",
    "Pin the key, in PLUMBLINE_BUNDLE_KEYS or with --trust, only if its holder gave it to you separately from the bundle.",
  ),
  bundle_key_missing: row(
    400,
    "No public key is pinned, so no bundle can be verified",
    "Set PLUMBLINE_BUNDLE_KEYS to the public key that your bundle maker got from `plumbline bundle key`, or pass it with --trust.",
  ),
  bundle_key_invalid: row(
    422,
    "The file is not a signing key",
    "Create one with `plumbline bundle key FILE`, and pass that file to --sign-with.",
  ),
  bundle_no_space: row(
    507,
    "There is not enough space for the content of the bundle",
    "Free some space and run it again.",
    true,
  ),
  bundle_locked: row(409, "Another process is applying a bundle here", "Wait until it ends.", true),
  not_a_release: row(
    409,
    "Only a release can be bundled, and this program is not a release",
    "Build a release with `npm run release`, and run `bundle create` from that file.",
  ),
  folder_not_empty: row(400, "The folder is not empty", "Name an empty folder, or one that does not exist yet."),
  config_invalid: row(
    500,
    "A setting is not valid",
    "The end of `plumbline --help` names the file that lists every setting with its default.",
  ),
  schema_too_new: row(
    500,
    "The database was written by a newer plumbline",
    "Install that version, or restore a backup.",
  ),
  usage: row(400, "The command line is not valid", "Add --help to see what the command accepts."),
  interrupted: row(500, "Stopped before it finished", "Start it again when you are ready."),
  address_taken: row(
    500,
    "The address is already in use",
    "Stop the program that listens there, or choose another PLUMBLINE_PORT.",
  ),
  release_damaged: row(
    500,
    "The executable is damaged",
    "Copy it here again, and compare its SHA-256 with the published one.",
  ),
  installation_damaged: row(
    500,
    "A file of the installation is missing or damaged",
    "Install this version of plumbline again. In a source tree, restore the file from the repository.",
  ),
  unpacking_failed: row(
    500,
    "The executable cannot unpack its files",
    "Set PLUMBLINE_DATA to a folder with 2 GiB free in which files can be written and executed.",
  ),
  serve_failed: row(500, "The appliance did not start", "Run `plumbline serve` on its own and read its log."),
  api_unreachable: row(
    503,
    "The appliance does not answer",
    "Start `plumbline serve`, or set PLUMBLINE_ADDRESS to the address where it listens.",
    true,
  ),
  key_missing: row(
    400,
    "No API key is set",
    "Create one on the machine with `plumbline key create --user NAME --save`, or set PLUMBLINE_KEY.",
  ),
  key_unsaved: row(
    500,
    "The key was created, but could not be saved",
    "Keep the key that was printed, because it is never shown again, and set PLUMBLINE_KEY to it.",
  ),
  work_failed: row(500, "The work ended without a result", "The message and the record say why."),
  api_refused: row(500, "The appliance refused a request", "The message contains its answer."),
  demo_failed: row(
    500,
    "The demo did not finish",
    "Run it again with --dir FOLDER --keep, and look inside the folder.",
  ),
} satisfies Record<string, Row>;

export type FailureCode = keyof typeof failures;

/** One entry of the contract's validation body. */
export interface ValidationDetail {
  loc: (string | number)[];
  msg: string;
  type: string;
  /** The facts in `msg` by name, for a client that shows more than the sentence. */
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

/** Returns a 422 failure about one field, in the contract's form. */
export function invalid(loc: (string | number)[], msg: string, type = "value_error"): Failure {
  return new Failure("validation", `${loc.join(".")}: ${msg}`, { details: [{ loc, msg, type }] });
}
