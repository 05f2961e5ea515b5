#include "cuda/cublas_lt.h"

#include <dlfcn.h>

#include <cstdlib>
#include <iterator>

namespace {

// The part of cublasLt.h that is used here, with the values of versions 12 and 13 (cuBLAS documentation, "cuBLASLt datatypes").
// Handles and descriptors are pointers, enumerations are int, attributes are set by value and size.
constexpr int success = 0;
constexpr int compute_f32 = 68;                          // CUBLAS_COMPUTE_32F
constexpr int data_f32 = 0, data_bf16 = 14;              // CUDA_R_32F, CUDA_R_16BF
constexpr int desc_transa = 3, desc_transb = 4;          // CUBLASLT_MATMUL_DESC_TRANSA, TRANSB: int32_t, 0 = N, 1 = T
constexpr int preference_workspace = 1;                  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: uint64_t
constexpr int preference_reductions = 3;                 // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: uint32_t
constexpr uint32_t reduction_compute_type = 2;           // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
constexpr int not_initialized = 1, alloc_failed = 3, arch_mismatch = 8; // of cublasStatus_t
constexpr int preference_alignment[] = {5, 6, 7, 8};     // …_MIN_ALIGNMENT_A_BYTES to D: uint32_t

/** cublasLtMatmulHeuristicResult_t; the algorithm is an opaque 64 bytes. */
struct HeuristicResult {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 64 + 8 + 4 + 4 + 16, "");

const char * const libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.12"};

void check(int status, const char * what) {
    if (status != success) throw blas_failure(status, what);
}

/** The largest power of two up to 256 that divides an address. */
uint32_t alignment_of(const void * address) {
    uint32_t alignment = 256;
    while (reinterpret_cast<uintptr_t>(address) % alignment != 0) alignment /= 2;
    return alignment;
}

int type_of(Number number) { return number == Number::f32 ? data_f32 : data_bf16; }

} // namespace

Failure blas_failure(int status, const std::string & what) {
    const std::string message = "cuBLASLt, " + what + ": status " + std::to_string(status);
    if (status == alloc_failed) return {"out_of_memory", message, "Free the device, use shorter rows or a smaller adapter, or open with device cpu."};
    if (status == not_initialized || status == arch_mismatch) return {"device_unavailable", message, "Install cuBLAS of the CUDA version that the driver runs, or open with device cpu."};
    return {"internal", message, report_bug};
}

struct CublasLt::Api {
    Api();
    void * library = nullptr;
    std::size_t (*version)();
    int (*create)(void ** handle);
    int (*destroy)(void * handle);
    int (*desc_create)(void ** desc, int compute, int scale);
    int (*desc_destroy)(void * desc);
    int (*desc_set)(void * desc, int attribute, const void * value, size_t bytes);
    int (*layout_create)(void ** layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
    int (*layout_destroy)(void * layout);
    int (*preference_create)(void ** preference);
    int (*preference_destroy)(void * preference);
    int (*preference_set)(void * preference, int attribute, const void * value, size_t bytes);
    int (*heuristic)(void * handle, void * desc, void * a, void * b, void * c, void * d, void * preference, int wanted, HeuristicResult * results, int * found);
    int (*matmul)(void * handle, void * desc, const void * alpha, const void * a, void * a_layout, const void * b, void * b_layout, const void * beta, const void * c,
                  void * c_layout, void * d, void * d_layout, const void * algorithm, void * workspace, size_t workspace_bytes, void * stream);

    template <class F> void find(F & function, const char * name) {
        function = reinterpret_cast<F>(dlsym(library, name));
        if (!function) throw Failure("device_unavailable", std::string("cuBLASLt has no ") + name, "Install cuBLAS of CUDA 12 or 13.");
    }
};

/** The descriptors of a product and the algorithm chosen for it. */
struct CublasLt::Prepared {
    explicit Prepared(const Api & api_) : api(api_) {}
    ~Prepared() {
        for (void * layout : {a, b, c})
            if (layout) api.layout_destroy(layout);
        if (desc) api.desc_destroy(desc);
    }
    const Api & api;
    void *desc = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
    HeuristicResult chosen{};
};

CublasLt::Api::Api() {
    const char * named = std::getenv("PLUMBLINE_CUBLASLT");
    std::vector<const char *> names(std::begin(libraries), std::end(libraries));
    // When a file is named, no other file is opened in its place.
    if (named && *named) names = {named};
    std::string tried;
    for (const char * name : names) {
        // Never unloaded, because CUDA's libraries cannot be unloaded safely.
        if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        const char * why = library ? nullptr : dlerror();
        tried += (tried.empty() ? "" : ", ") + std::string(names.size() == 1 && why ? why : name);
    }
    if (!library)
        throw Failure("device_unavailable", "cuBLASLt was not found: " + tried, "Install cuBLAS of CUDA 12 or 13 where the loader finds it, or name its file in PLUMBLINE_CUBLASLT.");
    find(version, "cublasLtGetVersion");
    find(create, "cublasLtCreate");
    find(destroy, "cublasLtDestroy");
    find(desc_create, "cublasLtMatmulDescCreate");
    find(desc_destroy, "cublasLtMatmulDescDestroy");
    find(desc_set, "cublasLtMatmulDescSetAttribute");
    find(layout_create, "cublasLtMatrixLayoutCreate");
    find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    find(preference_create, "cublasLtMatmulPreferenceCreate");
    find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(matmul, "cublasLtMatmul");
}

const CublasLt::Api & CublasLt::library() {
    static const Api api; // if the constructor throws, the next call tries again
    return api;
}

CublasLt::CublasLt() : api_(library()) {}

CublasLt::~CublasLt() {
    prepared_.clear();
    if (handle_) api_.destroy(handle_);
}

std::string CublasLt::version() const {
    const std::size_t v = api_.version();
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

const CublasLt::Prepared & CublasLt::prepared(const Gemm & g, int64_t workspace_bytes) {
    const uint32_t a_alignment = alignment_of(g.a), b_alignment = alignment_of(g.b), c_alignment = alignment_of(g.c);
    const std::vector<int64_t> key = {g.a_transposed, g.b_transposed, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, static_cast<int64_t>(g.inputs), static_cast<int64_t>(g.output),
                                      a_alignment, b_alignment, c_alignment, g.beta != 0};
    std::unique_ptr<Prepared> & kept = prepared_[key];
    if (kept) return *kept;
    auto fresh = std::make_unique<Prepared>(api_);
    // Row-major C = op(A) op(B) is column-major Cᵀ = op(B)ᵀ op(A)ᵀ, and a row-major matrix is its transpose in column-major. So B goes
    // first.
    check(api_.desc_create(&fresh->desc, compute_f32, data_f32), "describing a product");
    const int32_t first_transposed = g.b_transposed, second_transposed = g.a_transposed;
    check(api_.desc_set(fresh->desc, desc_transa, &first_transposed, sizeof first_transposed), "describing a product");
    check(api_.desc_set(fresh->desc, desc_transb, &second_transposed, sizeof second_transposed), "describing a product");
    const auto layout = [&](void ** to, Number number, int64_t rows, int64_t columns, int64_t leading) {
        check(api_.layout_create(to, type_of(number), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading), "describing a matrix");
    };
    layout(&fresh->a, g.inputs, g.b_transposed ? g.k : g.n, g.b_transposed ? g.n : g.k, g.ldb);
    layout(&fresh->b, g.inputs, g.a_transposed ? g.m : g.k, g.a_transposed ? g.k : g.m, g.lda);
    layout(&fresh->c, g.output, g.n, g.m, g.ldc);

    struct Preference {
        const Api & api;
        void * data = nullptr;
        ~Preference() {
            if (data) api.preference_destroy(data);
        }
    } preference{api_};
    check(api_.preference_create(&preference.data), "choosing an algorithm");
    const auto most = static_cast<uint64_t>(workspace_bytes);
    check(api_.preference_set(preference.data, preference_workspace, &most, sizeof most), "choosing an algorithm");
    // Partial sums are added in single precision and in a fixed order, whatever the result is rounded to.
    check(api_.preference_set(preference.data, preference_reductions, &reduction_compute_type, sizeof reduction_compute_type), "choosing an algorithm");
    const uint32_t alignments[] = {b_alignment, a_alignment, c_alignment, c_alignment};
    for (int i = 0; i < 4; i++) check(api_.preference_set(preference.data, preference_alignment[i], &alignments[i], sizeof alignments[i]), "choosing an algorithm");
    int found = 0;
    const int status = api_.heuristic(handle_, fresh->desc, fresh->a, fresh->b, fresh->c, fresh->c, preference.data, 1, &fresh->chosen, &found);
    check(status == alloc_failed ? status : success, "choosing an algorithm");
    if (status != success || found < 1 || fresh->chosen.state != success)
        throw Failure("internal", "cuBLASLt has no algorithm for a product of " + std::to_string(g.m) + " × " + std::to_string(g.n) + " × " + std::to_string(g.k) + ", status " + std::to_string(status), report_bug);
    kept = std::move(fresh);
    return *kept;
}

void CublasLt::gemm(const Gemm & g, void * workspace, int64_t workspace_bytes, void * stream) {
    if (g.m == 0 || g.n == 0) return;
    if (!handle_) check(api_.create(&handle_), "creating a handle");
    const Prepared & p = prepared(g, workspace_bytes);
    check(api_.matmul(handle_, p.desc, &g.alpha, g.b, p.a, g.a, p.b, &g.beta, g.c, p.c, g.c, p.c, p.chosen.algorithm, workspace, static_cast<size_t>(workspace_bytes), stream), "multiplying");
}
