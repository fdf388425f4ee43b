// Command grpc shows a gRPC server and its client that verify each other, while the keypairs of both are replaced.
//
// It makes a throw-away CA and two volumes such as a kubelet mounts, one for each side, and replaces the keypair in one and
// then in the other every few seconds. A stream that was begun at the start lives on meanwhile; each line is the first call
// on a new connection.
package main

// main.go reads the command line and decides when it is over.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
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
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	if err := demonstrate(ctx, o.every); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("grpc", flag.ContinueOnError)
	flags.DurationVar(&o.every, "every", 3*time.Second, "replace a keypair this often")
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
