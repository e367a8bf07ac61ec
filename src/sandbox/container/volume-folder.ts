/**
 * The folder at which a volume is mounted. The local image has this folder, and the user of the programs owns it:
 * docker gives a new volume to the owner of the folder it is first mounted on.
 */
export const volumeFolder = '/workspace';
