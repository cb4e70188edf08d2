// What a device error says: the kernel, the CUDA thread, the line, and where all the others are.
#include "engine.hpp"
#include "watchdog.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace cudasim::detail {
namespace {

struct module_search {
  std::uintptr_t address, load = 0;
  std::string path;
};

int find_module(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<module_search*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address < begin || search.address >= begin + segment.p_memsz) continue;
    search.load = info->dlpi_addr;
    search.path = info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe";
    return 1;
  }
  return 0;
}

// From the module's own symbol table: kernels are hidden or static, so the dynamic one lacks them.
std::string symbol_at(const char* image, std::uint64_t address) {
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(image);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image + header.e_shoff);
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* strings = image + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(image + sections[i].sh_offset);
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s)
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC && symbols[s].st_value == address)
        return strings + symbols[s].st_name;
  }
  return {};
}

std::string lane_list(unsigned lanes) {
  std::string list;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(lanes >> l & 1)) continue;
    unsigned last = l;
    while (last < 31 && (lanes >> (last + 1) & 1)) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(l) + (last > l ? "-" + std::to_string(last) : "");
    l = last;
  }
  return list;
}

// Of one dimension where the others are `alone`: 1 of a size, 0 of an index.
std::string text(const uint3& i, unsigned alone = 0) {
  return i.y == alone && i.z == alone
             ? std::to_string(i.x)
             : "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}

const char* phrase(activity a) {
  switch (a) {
    case activity::running: return "ran last at ";
    case activity::collective: return "wait in a warp collective at ";
    case activity::barrier: return "wait at a block barrier at ";
    case activity::polling: return "poll at ";
    default: return "have returned";
  }
}

}  // namespace

std::string kernel_name(const void* function) {
  module_search search{reinterpret_cast<std::uintptr_t>(function), 0, {}};
  std::string mangled;
  if (dl_iterate_phdr(find_module, &search) != 0) {
    const int file = open(search.path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info{};
    if (file >= 0 && fstat(file, &info) == 0) {
      const auto bytes = static_cast<std::size_t>(info.st_size);
      void* image = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
      if (image != MAP_FAILED) {
        mangled = symbol_at(static_cast<const char*>(image), search.address - search.load);
        munmap(image, bytes);
      }
    }
    if (file >= 0) close(file);
  }
  if (mangled.empty()) return "kernel without a symbol";
  char* readable = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  const std::string name = readable ? readable : mangled;
  std::free(readable);
  return name;
}

std::string describe(site where) {
  if (where.line == 0) return "its start";
  const char* slash = std::strrchr(where.file, '/');
  return std::string(slash ? slash + 1 : where.file) + ":" + std::to_string(where.line);
}

std::string engine::whereabouts() const {
  std::string s;
  for (const auto& b : slots_) {
    if (!b->active) continue;
    s += "  block " + text(b->index) + ":\n";
    for (unsigned i = 0; i * 32 < b->threads; ++i) {
      const warp& w = b->warps[i];
      std::map<std::string, unsigned> groups;
      for (unsigned l = 0; l < 32; ++l) {
        if (!(w.exists >> l & 1)) continue;
        const fiber& f = w.lanes[l];
        groups[phrase(f.doing) + (f.doing == activity::exited ? "" : describe(f.where))] |= 1u << l;
      }
      for (const auto& [what, lanes] : groups)
        s += "    warp " + std::to_string(i) + ", lanes " + lane_list(lanes) + ": " + what + "\n";
    }
  }
  return s;
}

std::string engine::report(const std::string& kind, const std::string& detail, const fiber* f, const block* b,
                           site where) const {
  if (f) b = f->home->home;
  std::string s = "cudasim: " + kind + "\n  kernel " + kernel_name(job_->kernel) + ", launched at " +
                  describe(job_->where) + ", grid " + text(job_->grid, 1) + ", block " + text(job_->block, 1) + "\n";
  if (b) s += "  block " + text(b->index);
  if (f)
    s += ", warp " + std::to_string(f->home->index) + ", lane " + std::to_string(f->lane) + ", thread " +
         text(f->thread);
  if (where.line != 0) s += ", at " + describe(where);
  return s + "\n  " + detail + "\n" + whereabouts();
}

void engine::stop_launch(const std::string& text) {
  if (!job_->failed.exchange(true)) record_error(text);
}

void engine::abandon() {
  fiber* self = current_;
  current_ = nullptr;
  switch_context(self->registers, scheduler_);
  __builtin_unreachable();
}

void engine::report_deadlock() {
  for (const auto& b : slots_) {
    if (!b->active) continue;
    for (unsigned t = 0; t < b->threads; ++t) {
      const fiber& f = b->fibers[t];
      if (f.doing == activity::exited) continue;
      const char* kind = b->arrived > 0 ? "divergent barrier" : "deadlock";
      stop_launch(report(kind, "no thread of the block can go on", &f, nullptr, f.where));
      return;
    }
  }
}

}  // namespace cudasim::detail
