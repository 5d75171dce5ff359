muster_fuzz(NAME cel_fuzz SRCS cel_fuzz.cc DEPS muster::cel)
