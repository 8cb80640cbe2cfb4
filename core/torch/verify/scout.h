// Runs work in a copy of this process first. Some operators of LibTorch, and of users' libraries, do not refuse sizes
// that they cannot take: they divide by zero or read memory that is not theirs, which ends the process. Nothing else
// tells these operators apart, so a probe with such sizes is sent ahead.
//
//   if (Status s = sendAhead([&] { (void)program.run(empty); }); !s) return s.error();   // "… ended by SIGFPE"
#pragma once

#include <functional>

#include "core/base/result.h"

namespace graft {

/// Does the work in a child process, on one thread, and waits for it. BadInput where a signal ended the child, or where
/// it did not come to an end. What the work does to memory stays in the child; it must not use a GPU.
Status sendAhead(const std::function<void()>& work, double seconds = 20);

}  // namespace graft
