//! All-reduce on memory of other libraries. This library is empty: each example beside it is a program of its own, or a
//! Python module, and uses the public API of allfold and of one other library. README.md says how they are built and run.
