//go:build linux

package chaos_test

// inside_test.go moves the test into a process of its own: with mounts that nobody else sees, limits of inotify that bind
// nobody else, and without the right to read what its mode forbids. It takes no root where user namespaces are allowed.

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// place tells a process of the test binary how far inside it is.
const place = "RELOAD_CHAOS_PLACE"

const (
	born    = "born"    // in namespaces of its own, with every capability in them
	settled = "settled" // without those that overrule file modes
	outside = "outside" // nothing of that: the machine does not allow it
)

// inside calls run in such a process and returns its exit code.
func inside(run func() int) int {
	switch os.Getenv(place) {
	case settled, outside:
		return run()
	case born:
		return settle()
	}
	if dir := os.Getenv(flooded); dir != "" {
		return flood(dir)
	}
	if err := again("-test.run=^$").Run(); err != nil {
		fmt.Println("NOT TESTED: no process with its own mounts and limits here:", err)
		os.Setenv(place, outside)
		return run()
	}
	runtime.LockOSThread() // the child is to end with the thread that made it
	cmd := again(os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		fmt.Println(err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// again is the command that runs this binary inside.
func again(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), place+"="+born)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}

// settle gives up what would overrule file modes, and becomes the test.
func settle() int {
	runtime.LockOSThread() // capabilities are those of the thread
	err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, "")
	for _, right := range []uintptr{1, 2} { // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
		const drop = 24 // PR_CAPBSET_DROP
		if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, drop, right, 0); errno != 0 && err == nil {
			err = errno
		}
	}
	if err == nil {
		var env []string
		for _, variable := range os.Environ() {
			if !strings.HasPrefix(variable, place+"=") {
				env = append(env, variable)
			}
		}
		err = syscall.Exec("/proc/self/exe", os.Args, append(env, place+"="+settled))
	}
	fmt.Println(err)
	return 1
}
