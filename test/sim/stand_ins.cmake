muster_test(NAME sim_stand_ins_test SRCS stand_ins_test.cc DEPS muster::sim_stand_ins)
