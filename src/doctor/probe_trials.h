// The trials: one function per feature, run in a child of its own by probe.cpp's table.
//
// A trial goes where a launch would stand (probe_stage.h), does what a launch would do, and looks
// whether it had the effect: a call that reports success and changes nothing is a failure.
#pragma once

#include "doctor/probe_stage.h"

namespace glovebox::host::probe {

// probe_namespaces.cpp
Reply try_box_uid(const Stage& stage);
Reply try_uid_lease(const Stage& stage);
Reply try_clone3(const Stage& stage);
Reply try_user_namespace(const Stage& stage);
Reply try_nested_user_namespace(const Stage& stage);
Reply try_mount_namespace(const Stage& stage);
Reply try_pid_namespace(const Stage& stage);
Reply try_net_namespace(const Stage& stage);
Reply try_ipc_namespace(const Stage& stage);
Reply try_uts_namespace(const Stage& stage);
Reply try_cgroup_namespace(const Stage& stage);

// probe_mounts.cpp
Reply try_openat2(const Stage& stage);
Reply try_tmpfs(const Stage& stage);
Reply try_open_tree(const Stage& stage);
Reply try_mount_setattr(const Stage& stage);
Reply try_move_mount(const Stage& stage);
Reply try_pivot_root(const Stage& stage);
Reply try_proc(const Stage& stage);
Reply try_devpts(const Stage& stage);

// probe_trees.cpp
Reply try_overlay(const Stage& stage);
Reply try_idmap_root(const Stage& stage);
Reply try_idmap_tmp(const Stage& stage);
Reply try_idmap_current(const Stage& stage);

// probe_walls.cpp
Reply try_keyring(const Stage& stage);
Reply try_capabilities(const Stage& stage);
Reply try_no_new_privileges(const Stage& stage);
Reply try_landlock(const Stage& stage);
Reply try_seccomp(const Stage& stage);
Reply try_close_range(const Stage& stage);
Reply try_kvm(const Stage& stage);

// probe_notify.cpp
Reply try_seccomp_notify(const Stage& stage);
Reply try_seccomp_addfd(const Stage& stage);
Reply try_pidfd_getfd(const Stage& stage);

// probe_sockets.cpp
Reply try_socket_filter(const Stage& stage);
Reply try_socket_tables(const Stage& stage);

// probe_cgroups.cpp
Reply try_process_limit(const Stage& stage);
Reply try_memory_cgroup(const Stage& stage);
Reply try_swap_limit(const Stage& stage);
Reply try_memory_event(const Stage& stage);
Reply try_pids_cgroup(const Stage& stage);
Reply try_cpu_cgroup(const Stage& stage);
Reply try_cpu_accounting(const Stage& stage);
Reply try_clone_into_cgroup(const Stage& stage);
// In the parent, after a cgroup trial that may have been killed half-way.
void remove_trial_cgroups(const Stage& stage);

}  // namespace glovebox::host::probe
