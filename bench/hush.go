package main

// hush.go keeps the peers from writing to the terminal.

import (
	"flag"
	"io"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func hush() {
	settings := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(settings)
	settings.Set("logtostderr", "false")
	settings.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	log.SetLogger(logr.Discard())
}
