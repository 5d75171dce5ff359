# What a cluster has besides its API server and Muster.
muster_library(
  NAME sim_stand_ins
  HDRS follower.h
       garbage_collector.h
       job_controller.h
       kube_scheduler.h
       kubelet.h
       resource_claim_controller.h
       stand_ins.h
  SRCS follower.cc
       garbage_collector.cc
       job_controller.cc
       kube_scheduler.cc
       kubelet.cc
       resource_claim_controller.cc
       stand_ins.cc
  DEPS muster::sim_api_server muster::placement)
