if(TARGET muster_decisions)
  muster_test(
    NAME decisions_test
    SRCS decide_case_test.cc decide_property_test.cc decide_test.cc plan_test.cc victims_test.cc
    DEPS muster::test_decisions)
endif()
