// The program that precompiled headers belong to; nobody runs it.
int main() { return 0; }
