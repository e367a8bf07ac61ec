/** What a permission is called. It is held exactly or not at all: no character in it stands for others. */
export const permissionName = /^[a-z0-9*][a-z0-9:._*-]{0,127}$/;

export const mostPermissions = 100;
