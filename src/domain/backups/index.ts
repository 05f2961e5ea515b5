// Makes, verifies and restores backups of a data folder. An appliance may serve while its data is backed up or verified.
export { openArchiveTarget } from "./archive.ts";
export { type BackupReport, checkPlaces, makeBackup } from "./backup.ts";
export { openFolderTarget } from "./folder.ts";
export { runsUnderWay } from "./named.ts";
export { openBackup } from "./open.ts";
export { restoreBackup } from "./restore.ts";
export { type VerifyReport, verifyBackup, verifyData } from "./verify.ts";
