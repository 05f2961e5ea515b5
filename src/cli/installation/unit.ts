// The systemd unit and the file of settings that `plumbline install` writes.
import { renderEnvironmentFile, settings } from "../../base/config.ts";
import { type Installation, type Layout, systemPlaces } from "./layout.ts";

/** `target` is the program that runs in the end, behind all links. */
export function renderUnit({ user, data, environment }: Installation, at: Layout, target: string): string {
  // The service sees nothing of homes with ProtectHome=yes.
  const isInHome = [data, target, at.prefix].some((path) => /^\/(home|root|run\/user)\//.test(path));
  return `# Written by \`plumbline install\`, which writes it again when it differs. For changes of your own: systemctl edit plumbline
[Unit]
Description=plumbline: aligned language models from your own documents
After=network.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=${user}
EnvironmentFile=${environment}
Environment=NODE_COMPILE_CACHE=${systemPlaces.cache}/compiled
# An upgrade that was cut off is undone before anything runs. One that is under way is left alone.
ExecStartPre=-+/bin/sh -c 'test ! -e ${at.journal} || exec ${at.undoProgram} upgrade --undo --prefix ${at.prefix}'
ExecStart=${at.program} serve
UMask=0077
# A native abort in the inference engine ends the process: jobs, models and deployments are taken up at the next start.
Restart=always
RestartSec=1
# serve cuts off what has not ended in order after 30 s; everything of it goes with it.
TimeoutStopSec=45
KillMode=mixed

LimitNOFILE=65536
LimitCORE=0
TasksMax=512
MemoryMax=90%
# Of a run that takes too much memory only the trainer is ended; the appliance says so, and goes on.
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
# What is not allowed fails as if the kernel did not have it, instead of ending the process.
SystemCallErrorNumber=EPERM
# The GPU's devices and no others. MemoryDenyWriteExecute is left off: V8 compiles at run time.
DevicePolicy=closed
DeviceAllow=char-nvidia rw
DeviceAllow=char-nvidia-frontend rw
DeviceAllow=char-nvidia-uvm rw

[Install]
WantedBy=multi-user.target
`;
}

/** Every setting with its default, and the data folder set. */
export function renderSettings(data: string): string {
  const { name } = settings.data;
  return renderEnvironmentFile().replace(new RegExp(`^#${name}=.*$`, "m"), `${name}=${data}`);
}
