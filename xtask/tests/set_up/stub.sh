#!/bin/sh
# Stands in for a program that `./x` calls, by its name. What is installed, and in which version, stands in files of $STATE; the archives are
# two: the main one has Rust 1.85, the security archive 1.96.
name=${0##*/}
main='1.85.0+dfsg3-1~deb12u3'
security='1.96.0+dfsg1-1~deb12u2'
reads_security() { [ -e "$STATE/security" ] || case " $* " in *sourceparts*) [ -e "$STATE/mirror" ] ;; *) false ;; esac; }
tools_of() {
    case $1 in
    cargo-web) echo cargo ;;
    rustc-web) echo rustc ;;
    rust-web-clippy) echo cargo-clippy clippy-driver ;;
    rustfmt-web) echo rustfmt cargo-fmt ;;
    esac
}
case $name in
cargo | rustc | cargo-clippy | clippy-driver | cargo-fmt | rustfmt)
    [ -s "$STATE/$name" ] || exit 1
    version=$(cat "$STATE/$name")
    case $name in *clippy*) echo "clippy 0.$version" | sed 's/\.0$//' ;; *fmt) echo "rustfmt 1.9.0" ;; *) echo "$name $version (stub)" ;; esac
    ;;
id) echo 0 ;;
dpkg)
    echo "dpkg $*" >>"$STATE/log"
    case $1 in
    --audit) cat "$STATE/interrupted" 2>/dev/null ;;
    --configure) rm -f "$STATE/interrupted" ;;
    esac
    ;;
dpkg-query) exit 1 ;;
apt-cache)
    for package; do :; done
    # What is installed counts as a candidate, too: that is no version that an archive has.
    case " $* " in *' madison '*) ;; *) echo "  Candidate: $security" && exit ;; esac
    if reads_security "$@"; then echo " $package | $security | http://security.example bookworm-security/main amd64 Packages"; fi
    echo " $package | $main | http://archive.example/debian bookworm/main amd64 Packages"
    ;;
apt-get)
    [ ! -e "$STATE/interrupted" ] || exit 100
    echo "apt-get $*" >>"$STATE/log"
    case " $* " in
    *' indextargets '*) [ ! -e "$STATE/mirror" ] || echo 'http://archive.example/debian/ bookworm' ;;
    *' install '*)
        version=$main
        ! reads_security "$@" || version=$security
        for word; do
            for tool in $(tools_of "${word%%=*}"); do
                # What is there in a newer version stays, as with apt.
                case $word in *=*) version=${word#*=} ;; esac
                grep -q '^1.96' "$STATE/$tool" 2>/dev/null || echo "${version%%+*}" >"$STATE/$tool"
            done
        done
        ;;
    esac
    ;;
esac
