muster_library(
  NAME controller
  HDRS config.h
       controller.h
       controller_driver.h
       controller_edit.h
       controller_impl.h
       effects.h
       solver_thread.h
       writer.h
  SRCS config.cc
       controller.cc
       controller_claims.cc
       controller_driver.cc
       controller_edit.cc
       controller_queues.cc
       controller_units.cc
       controller_workload.cc
       solver_thread.cc
       writer.cc
  DEPS muster::base muster::api muster::jobs muster::k8sclient muster::decisions)
