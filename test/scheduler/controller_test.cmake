if(TARGET muster::sim_api_server)
  muster_test(
    NAME controller_test
    SRCS config_test.cc controller_test.cc harness.cc
    DEPS muster::controller muster::sim_api_server)
endif()
