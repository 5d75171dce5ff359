if(TARGET muster_placement)
  muster_bench(NAME placement_bench SRCS placement_bench.cc DEPS muster::placement)
endif()
