// Command controller is a Kubernetes controller all of whose certificates rotate while it runs: that of its webhooks and
// metrics, its identity at the API server, and the identity of a reverse proxy, which is in a Secret. It needs no cluster:
// an API server, mounts and a certificate authority are made up, the certificates are replaced every few seconds, and what
// all sides see of it is shown.
//
// What a controller takes from it is in manager.go, upstream.go, proxy.go and replica.go.
package main

// main.go reads the command line and decides when it is over.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options is the command line.
type options struct {
	every time.Duration
	limit time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // a second Ctrl-C ends the process at once
	signal.Ignore(syscall.SIGPIPE) // a reader of our output that leaves is no reason to leave files behind

	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // the flag package has said why
	}
	// What goes well is in the table. One logger for all: client-go and controller-runtime speak logr, we speak slog.
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	slog.SetDefault(logger)
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

// run shows the controller until ctx is done or the time is up.
func run(ctx context.Context, o options, out io.Writer) error {
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	return demonstrate(ctx, o.every, out)
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	flags.DurationVar(&o.every, "every", 4*time.Second, "replace the certificates this often")
	flags.DurationVar(&o.limit, "for", 0, "end after this long; 0 is never")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.every <= 0:
		err = errors.New("-every must be positive")
	}
	if err != nil {
		fmt.Fprintln(flags.Output(), err)
		flags.Usage()
	}
	return o, err
}
