package check_test

// kubernetes_test.go decodes the manifests of kubernetes.md the way an API server does with strict field validation.

import (
	"fmt"
	"path"
	"regexp"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/seed45259946/reload"
)

// manifests returns the fences marked as YAML.
func manifests() (all []string) {
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page("kubernetes.md")), -1) {
		all = append(all, found[1])
	}
	return all
}

// decode decodes one manifest strictly and returns it with the Pods in it.
func decode(manifest string) (any, []corev1.PodSpec) {
	GinkgoHelper()
	var meta metav1.TypeMeta
	Expect(yaml.Unmarshal([]byte(manifest), &meta)).To(Succeed())
	switch meta.APIVersion + " " + meta.Kind {
	case "v1 Pod":
		var pod corev1.Pod
		Expect(yaml.UnmarshalStrict([]byte(manifest), &pod)).To(Succeed())
		return pod, []corev1.PodSpec{pod.Spec}
	case "apps/v1 Deployment":
		var deployment appsv1.Deployment
		Expect(yaml.UnmarshalStrict([]byte(manifest), &deployment)).To(Succeed())
		Expect(deployment.Spec.Selector.MatchLabels).To(Equal(deployment.Spec.Template.Labels))
		return deployment, []corev1.PodSpec{deployment.Spec.Template.Spec}
	case "cert-manager.io/v1 Certificate":
		var c cmv1.Certificate
		Expect(yaml.UnmarshalStrict([]byte(manifest), &c)).To(Succeed())
		return c, nil
	}
	Fail("no schema for " + fmt.Sprint(meta))
	return nil, nil
}

var _ = Describe("kubernetes.md", func() {
	It("has manifests that an API server accepts to the letter", func() {
		Expect(manifests()).To(HaveLen(4))
		for _, manifest := range manifests() {
			decode(manifest)
		}
	})

	It("mounts directories, with the files where FromDir looks for them, and never a subPath", func() {
		secrets := map[string]bool{}
		for _, manifest := range manifests() {
			_, pods := decode(manifest)
			for _, pod := range pods {
				volumes := map[string]corev1.Volume{}
				for _, v := range pod.Volumes {
					volumes[v.Name] = v
				}
				mounts := pod.Containers[0].VolumeMounts
				Expect(mounts).To(HaveLen(1))
				Expect(mounts[0].SubPath).To(BeEmpty())
				Expect(volumes).To(HaveKey(mounts[0].Name))
				for _, file := range files(volumes[mounts[0].Name]) {
					p := reload.FromDir(mounts[0].MountPath)
					Expect(path.Join(mounts[0].MountPath, file)).To(BeElementOf(p.Cert, p.Key, p.CA))
				}
				secrets[secretOf(volumes[mounts[0].Name])] = true
				for _, arg := range pod.Containers[0].Args {
					Expect(arg).To(HaveSuffix(mounts[0].MountPath))
				}
			}
		}
		Expect(secrets).To(Equal(map[string]bool{"web-tls": true}))
	})

	It("probes ports that are there, at the path that operations.md serves", func() {
		for _, manifest := range manifests() {
			_, pods := decode(manifest)
			for _, pod := range pods {
				c := pod.Containers[0]
				ports := []string{}
				for _, port := range c.Ports {
					ports = append(ports, port.Name)
				}
				for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
					if probe != nil {
						Expect(probe.HTTPGet.Port.StrVal).To(BeElementOf(ports))
					}
				}
				if c.ReadinessProbe != nil {
					Expect(string(page("operations.md"))).To(ContainSubstring(`mux.HandleFunc("` + c.ReadinessProbe.HTTPGet.Path + `"`))
				}
			}
		}
	})

	It("renews early enough to be told of before a notice comes, into the Secret that is mounted", func() {
		object, _ := decode(manifests()[0])
		c := object.(cmv1.Certificate)
		Expect(c.Spec.SecretName).To(Equal("web-tls"))
		lifetime, left := c.Spec.Duration.Duration, c.Spec.RenewBefore.Duration
		Expect(left).To(BeNumerically(">", lifetime/4+time.Hour))
	})
})

// files returns the names of files in a volume, where it says them.
func files(v corev1.Volume) (names []string) {
	if v.Projected == nil {
		return nil
	}
	for _, source := range v.Projected.Sources {
		switch {
		case source.Secret != nil:
			for _, item := range source.Secret.Items {
				names = append(names, item.Path)
			}
		case source.ConfigMap != nil:
			for _, item := range source.ConfigMap.Items {
				names = append(names, item.Path)
			}
		case source.ClusterTrustBundle != nil:
			names = append(names, source.ClusterTrustBundle.Path)
		}
	}
	return names
}

// secretOf returns the name of the Secret in a volume.
func secretOf(v corev1.Volume) string {
	if v.Secret != nil {
		return v.Secret.SecretName
	}
	for _, source := range v.Projected.Sources {
		if source.Secret != nil {
			return source.Secret.Name
		}
	}
	return ""
}
