// Command https serves HTTPS with a keypair that it follows while others replace it.
//
// Without arguments it is a demonstration: it makes a throw-away CA and a volume such as a kubelet mounts, replaces the
// keypair in it every few seconds, and shows each handshake of a client meanwhile. With -dir, or -cert and -key, it serves
// the files of somebody else instead.
package main

// main.go reads the command line and decides when it is over.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed45259946/reload"
)

// options is the command line.
type options struct {
	paths   reload.Paths // none for the demonstration
	addr    string
	verify  bool
	metrics bool
	every   time.Duration
	limit   time.Duration
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
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "https:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done or the time is up.
func run(ctx context.Context, o options) error {
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	if o.paths == (reload.Paths{}) {
		return demonstrate(ctx, o)
	}
	s, err := newSite(o, func(w *reload.WatchOptions) { w.Hints = hangups() })
	if err != nil {
		return err
	}
	fmt.Printf("Serving %s with %s. SIGHUP has it look at once, Ctrl-C ends it.\n", s.url, o.paths.Cert)
	return s.serve(ctx)
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	var cert, key, ca, dir string
	flags := flag.NewFlagSet("https", flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "serve tls.crt and tls.key in this `directory`, with ca.crt if it is there")
	flags.StringVar(&cert, "cert", "", "serve the certificate in this `file`")
	flags.StringVar(&key, "key", "", "the `file` with its private key")
	flags.StringVar(&ca, "ca", "", "the `file` with the CAs of clients")
	flags.StringVar(&o.addr, "addr", "127.0.0.1:0", "serve at this `address`; with port 0 the system picks one")
	flags.BoolVar(&o.verify, "verify", false, "admit only clients with a certificate of the CA file")
	flags.BoolVar(&o.metrics, "metrics", false, "serve /metrics (Prometheus text) and /status (JSON) too")
	flags.DurationVar(&o.every, "every", 3*time.Second, "replace the keypair of the demonstration this often")
	flags.DurationVar(&o.limit, "for", 0, "end after this long; 0 is never")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if dir != "" {
		o.paths = reload.FromDir(dir)
	}
	o.paths.Cert, o.paths.Key, o.paths.CA = cmp.Or(cert, o.paths.Cert), cmp.Or(key, o.paths.Key), cmp.Or(ca, o.paths.CA)
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case (o.paths.Cert == "") != (o.paths.Key == ""):
		err = errors.New("-cert and -key come together")
	case o.paths.CA != "" && o.paths.Cert == "":
		err = errors.New("-ca needs -cert and -key, or -dir")
	case o.every <= 0:
		err = errors.New("-every must be positive")
	}
	if err != nil {
		fmt.Fprintln(flags.Output(), err)
		flags.Usage()
	}
	return o, err
}

// hangups asks for a look at the files with each SIGHUP, as long as the process lasts.
func hangups() <-chan struct{} {
	signals, looks := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			looks <- struct{}{}
		}
	}()
	return looks
}
