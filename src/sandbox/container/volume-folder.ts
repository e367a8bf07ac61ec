/**
 * Where a volume is mounted. The image of this machine has this folder, and whoever the programs run as owns it: docker
 * gives a new volume to the owner of the folder it is first mounted upon.
 */
export const volumeFolder = '/workspace';
