muster_library(
  NAME decisions
  HDRS cache/queues.h
       cache/shapes.h
       cycle/assign.h
       cycle/explain.h
       cycle/flavor_match.h
       cycle/gang.h
       cycle/plan.h
       cycle/shape.h
       cycle/snapshot.h
       cycle/victims.h
       options.h
       queue/pending.h
       state.h
  SRCS cache/queues.cc
       cache/shapes.cc
       cycle/assign.cc
       cycle/cycle.cc
       cycle/explain.cc
       cycle/flavor_match.cc
       cycle/gang.cc
       cycle/plan.cc
       cycle/victims.cc
       queue/pending.cc
       state.cc
       state_claims.cc
       state_cycle.cc
       state_views.cc
  DEPS muster::base muster::api muster::quota muster::placement)
