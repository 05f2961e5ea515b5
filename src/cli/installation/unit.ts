// Renders the systemd unit and the file of settings that `plumbline install` writes.
import { renderEnvironmentFile, settings } from "../../base/config.ts";
import { type Installation, type Layout, systemPlaces } from "./layout.ts";

/** Renders the systemd unit. `target` is the program that runs, with all links resolved. */
export function renderUnit({ user, data, environment }: Installation, at: Layout, target: string): string {
  // With ProtectHome=yes, the service sees nothing in home folders.
  const isInHome = [data, target, at.prefix].some((path) => /^\/(home|root|run\/user)\//.test(path));
  return `# Written by \`plumbline install\`, which rewrites it if it differs. For your own changes, use: systemctl edit plumbline
[Unit]
Description=plumbline: aligned language models from your own documents
After=network.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=${user}
EnvironmentFile=${environment}
Environment=NODE_COMPILE_CACHE=${systemPlaces.cache}/compiled
# Undoes an upgrade that was cut off before anything runs. An upgrade in progress is left alone.
ExecStartPre=-+/bin/sh -c 'test ! -e ${at.journal} || exec ${at.undoProgram} upgrade --undo --prefix ${at.prefix}'
ExecStart=${at.program} serve
UMask=0077
# A native abort in the inference engine ends the process. The next start resumes jobs, models and deployments.
Restart=always
RestartSec=1
# After 30 s, serve cuts off what has not ended in order. Its child processes end with it.
TimeoutStopSec=45
KillMode=mixed

LimitNOFILE=65536
LimitCORE=0
TasksMax=512
MemoryMax=90%
# If a run takes too much memory, only the trainer is ended; the appliance reports it and continues.
OOMPolicy=continue

NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=${data}
CacheDirectory=plumbline
CacheDirectoryMode=0700
ProtectHome=${isInHome ? "read-only" : "yes"}
PrivateTmp=yes
ProtectProc=invisible
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
# An organisation's own verifiers run in namespaces of these kinds, without network.
RestrictNamespaces=user net pid
RestrictSUIDSGID=yes
RestrictRealtime=yes
RemoveIPC=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
# A system call that is not allowed fails with an error instead of ending the process.
SystemCallErrorNumber=EPERM
# Only the GPU's devices. MemoryDenyWriteExecute stays off, because V8 compiles at run time.
DevicePolicy=closed
DeviceAllow=char-nvidia rw
DeviceAllow=char-nvidia-frontend rw
DeviceAllow=char-nvidia-uvm rw

[Install]
WantedBy=multi-user.target
`;
}

/** Renders the file of settings, with every setting commented out at its default except the data folder, which is set. */
export function renderSettings(data: string): string {
  const { name } = settings.data;
  return renderEnvironmentFile().replace(new RegExp(`^#${name}=.*$`, "m"), `${name}=${data}`);
}
