{{- define "envfarm.labels" -}}
app.kubernetes.io/name: envfarm
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "envfarm.selector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "envfarm.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "envfarm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "envfarm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "envfarm.image" -}}
image: {{ printf "%s/%s:%s" .root.Values.registry .name (toString .root.Values.tag) | quote }}
imagePullPolicy: {{ .root.Values.pullPolicy }}
{{- end }}

{{- /* Files in /run/secrets: a list of key=variable. */ -}}
{{- define "envfarm.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ .root.Values.secret }}
    defaultMode: 0440
    items:
    {{- range .files }}
    {{- $pair := splitn "=" 2 . }}
    - {key: {{ $pair._0 }}, path: {{ $pair._1 }}}
    {{- end }}
{{- end }}

{{- define "envfarm.probes" -}}
startupProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 2
  failureThreshold: 150
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{- define "envfarm.scrapers" -}}
- namespaceSelector: {{ toYaml .Values.monitoring.namespaceSelector | nindent 4 }}
  podSelector: {{ toYaml .Values.monitoring.podSelector | nindent 4 }}
{{- end }}
