package main

// weight.go builds the same small HTTPS server with each peer, in weight/, and weighs the programs.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func weight(_ effort, peers []peer) (*table, error) {
	t := &table{
		title:   "Weight of an HTTPS server",
		columns: []string{"", "MB", "ratio", "modules besides its own"},
		notes:   []string{"CGO_ENABLED=0 go build -trimpath -ldflags='-s -w'; modules are those that code comes from, without the peer's own."},
	}
	dir, err := os.MkdirTemp("", "reload-weight-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	programs := []string{"stdlib", "slog"}
	for _, p := range peers {
		if !p.yardstick {
			programs = append(programs, p.name)
		}
	}
	var least float64
	for _, name := range programs {
		size, modules, err := weigh(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if least == 0 {
			least = size
		}
		t.add(name, fmt.Sprintf("%.2f", size/1e6), ratio(size, least), fmt.Sprint(modules))
	}
	return t, nil
}

// weigh builds one program and returns its size and the number of modules in it besides the peer's own and this one.
func weigh(dir, name string) (size float64, modules int, err error) {
	program := filepath.Join(dir, name)
	if _, err := golang("build", "-trimpath", "-ldflags=-s -w", "-o", program, "./weight/"+name); err != nil {
		return 0, 0, err
	}
	info, err := os.Stat(program)
	if err != nil {
		return 0, 0, err
	}
	list, err := golang("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./weight/"+name)
	if err != nil {
		return 0, 0, err
	}
	distinct := map[string]bool{}
	for _, module := range strings.Fields(list) {
		distinct[module] = true
	}
	return float64(info.Size()), max(0, len(distinct)-2), nil
}

// golang runs the go command.
func golang(arguments ...string) (string, error) {
	cmd := exec.Command("go", arguments...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	output, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return string(output), err
}
