# The world: scenarios, virtual time, and the real controller on the in-memory API server.
muster_library(
  NAME sim_world
  HDRS checkers.h generate.h live_world.h local_transport.h scenario.h timeline.h virtual_time.h world.h
  SRCS checkers.cc generate.cc live_world.cc local_transport.cc report.cc scenario.cc timeline.cc virtual_time.cc world.cc
  DEPS muster::controller muster::sim_api_server muster::sim_stand_ins muster::yaml)

add_executable(muster-sim main.cc)
target_link_libraries(muster-sim PRIVATE muster::sim_world)
muster_apply_flags(muster-sim "")
set_target_properties(muster-sim PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
