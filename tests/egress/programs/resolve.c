/* Looks a name up with the resolver that is linked in, connects there, and prints what comes. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char** argv) {
  struct addrinfo hints, *found;
  char buffer[4096];
  ssize_t size;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  if (argc != 3 || getaddrinfo(argv[1], argv[2], &hints, &found) != 0) return 2;
  for (struct addrinfo* each = found; each; each = each->ai_next) {
    int fd = socket(each->ai_family, each->ai_socktype, 0);
    if (connect(fd, each->ai_addr, each->ai_addrlen) != 0) continue;
    dprintf(fd, "GET /musl HTTP/1.0\r\n\r\n");
    while ((size = read(fd, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, (size_t)size, stdout);
    return 0;
  }
  return 1;
}
