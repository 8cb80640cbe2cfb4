// LLVM asks the terminal library whether standard error shows colours. This library prints nothing, so the answer is
// no, and nobody who loads it needs that library. LLVM 19 no longer asks.
extern "C" {
void* set_curterm(void*) { return nullptr; }
int del_curterm(void*) { return 0; }
int setupterm(const char*, int, int* error) {
  if (error) *error = 0;
  return -1;
}
int tigetnum(const char*) { return -1; }
}
