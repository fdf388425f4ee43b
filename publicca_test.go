package reload_test

// publicca_test.go has a client at the door whose certificate every machine trusts.

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seed45259946/reload"
	"github.com/seed45259946/reload/reloadtest"
)

var _ = Describe("A client certificate of a public CA", Label("public-ca"), func() {
	// The system roots are read once per process, so that another one has to be given a public CA of ours.
	It("is refused by every server that verifies clients", func(ctx SpecContext) {
		if dir := os.Getenv(publicCA); dir != "" {
			refusesPublicCA(dir)
			return
		}
		if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
			Skip("the system roots cannot be set by the environment")
		}
		dir := GinkgoT().TempDir()
		public := reloadtest.NewCA(reloadtest.Options{Name: "public CA"})
		for name, content := range public.Issue(reloadtest.Options{}).Files(public) {
			Expect(os.WriteFile(filepath.Join(dir, name), content, 0o600)).To(Succeed())
		}
		again := exec.CommandContext(ctx, must(os.Executable()), "-test.run=^TestReload$", "-ginkgo.label-filter=public-ca")
		again.Env = append(os.Environ(), publicCA+"="+dir,
			"SSL_CERT_FILE="+filepath.Join(dir, reload.SecretCAFile), "SSL_CERT_DIR="+dir)
		output, err := again.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
		Expect(string(output)).To(ContainSubstring("Ran 1 of"))
	}, SpecTimeout(time.Minute))
})

// publicCA names, to a process that runs again, the directory of a keypair and of the CA that is its only system root.
const publicCA = "RELOAD_TEST_PUBLIC_CA"

func refusesPublicCA(dir string) {
	GinkgoHelper()
	private := reloadtest.NewCA(reloadtest.Options{Name: "private CA"})
	public := must(reload.LoadBundle(reload.FromDir(dir))).Cert
	client := &tls.Config{
		RootCAs:    private.Pool(),
		ServerName: "localhost",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &public, nil
		},
	}
	open := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, GetCertificate: storing(generation(private)).GetCertificate}
	Expect(visit(open, client)).To(beFull(), "with no ClientCAs at all crypto/tls trusts the system roots")

	for _, auth := range []tls.ClientAuthType{tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert} {
		for name, b := range map[string]*reload.Bundle{
			"a CA file": generation(private, private), "no CA file": generation(private), "nothing": nil,
		} {
			base := &tls.Config{ClientAuth: auth}
			Expect(visit(storing(b).ServerConfig(base), client)).To(beRefused(), name)

			dropped := storing(b).ServerConfig(base)
			dropped.GetConfigForClient = nil
			Expect(visit(dropped, client)).To(beRefused(), "%s, callback dropped", name)

			later := new(tls.Config)
			storing(b).ConfigureServer(later)
			later.ClientAuth = auth
			Expect(visit(later, client)).To(beRefused(), "%s, ClientAuth set later", name)
			later.GetConfigForClient = nil
			Expect(visit(later, client)).To(beRefused(), "%s, ClientAuth set later, callback dropped", name)

			cleared := storing(b).ServerConfig(base)
			cleared.ClientCAs = nil
			Expect(visit(cleared, client)).To(beRefused(), "%s, ClientCAs cleared", name)

			theirs := storing(b).ServerConfig(&tls.Config{
				GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return base, nil },
			})
			Expect(visit(theirs, client)).To(beRefused(), "%s, GetConfigForClient", name)
		}
	}
}

func storing(b *reload.Bundle) *reload.Store {
	store := reload.NewStore()
	store.Store(b)
	return store
}
