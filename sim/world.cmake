# The world: scenarios, virtual time, and the real controller on the in-memory API server.
muster_library(
  NAME sim_world
  HDRS local_transport.h scenario.h timeline.h virtual_time.h world.h
  SRCS local_transport.cc report.cc scenario.cc timeline.cc virtual_time.cc world.cc
  DEPS muster::controller muster::sim_api_server muster::sim_stand_ins muster::yaml)
