// The command line's parser, for headers that only name it. CLI11 makes its validators anew in
// every file that includes it, and each is made when the program starts: only files that add
// options do.
#pragma once

namespace CLI {
class App;
}
