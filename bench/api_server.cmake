if(TARGET muster_sim_api_server)
  muster_bench(NAME api_server_bench SRCS api_server_bench.cc DEPS muster::sim_api_server)
endif()
