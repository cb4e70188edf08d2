// The interpreter's lock, and calls that may wait for it.
//
// When the interpreter has ended, CPython before 3.14 ends each daemon thread that waits for the lock by pthread_exit,
// which unwinds the stack of the thread. nanobind's functions are noexcept, so this would end the process by
// std::terminate. The functions below let such a thread sleep until the process ends, as Python 3.14 does.
#pragma once

#include <Python.h>

#include <unistd.h>
#include <exception>

namespace tuck::python {

// Calls what may run Python code or wait for the lock, and returns its result. `call` only calls functions of C:
// destructors of its own would run without the lock. Never inlined, as a noexcept function may skip its destructors.
template <class Call> [[gnu::noinline]] auto in_python(const Call& call) {
  struct guard {
    int exceptions = std::uncaught_exceptions();
    bool has_returned = false;

    ~guard() {
      if (has_returned || std::uncaught_exceptions() != exceptions) return;
      for (;;) pause();
    }
  } guard;
  auto result = call();
  guard.has_returned = true;
  return result;
}

// Releases the lock while it lives.
class unlocked {
 public:
  unlocked() = default;
  unlocked(const unlocked&) = delete;
  unlocked& operator=(const unlocked&) = delete;
  ~unlocked() {
    in_python([this] {
      PyEval_RestoreThread(state_);
      return true;
    });
  }

 private:
  PyThreadState* state_ = PyEval_SaveThread();
};

}  // namespace tuck::python
