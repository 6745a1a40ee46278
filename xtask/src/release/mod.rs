//! `cargo xtask release`: everything that the page of a release has, in one folder.
//!
//! ```text
//! build, for each processor ─► trial: --version, serve ─┬► package: deb, rpm, tar.gz, bill of materials
//!                                                       └► image: one OCI layout for all processors
//! CHANGELOG.md ─► notes                                     all files ─► SHA256SUMS
//! ```

mod build;
mod image;
mod notes;
mod root_files;
mod tar;
mod trial;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::architecture::Architecture;
use crate::package::needs::{self, Libraries};
use crate::package::{self, Program, Release};
use crate::{Failure, process};

/// Largest program without symbols, in bytes.
const PROGRAM_BYTES_MAX: u64 = 60 << 20;

/// The request of the command line.
#[derive(Debug)]
struct Request {
    folder: PathBuf,
    architectures: Vec<Architecture>,
    /// Programs that are built already, by their processors.
    binaries: Vec<(Architecture, PathBuf)>,
    is_uncompressed: bool,
    /// Whether programs are started before they are packed.
    is_tried: bool,
}

/// Steps that are counted aloud: the longest take half an hour.
struct Progress {
    begun: Instant,
    step: usize,
    steps: usize,
}

impl Progress {
    fn begin(&mut self, what: &str) {
        self.step += 1;
        let minutes = self.begun.elapsed().as_secs_f64() / 60.0;
        println!("[{}/{}, {minutes:.1} min] {what}", self.step, self.steps);
    }
}

/// A program with what it needs.
struct Built {
    architecture: Architecture,
    binary: PathBuf,
    libraries: Libraries,
}

/// Makes the release that `arguments` ask for.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = parse(arguments)?;
    let here = Architecture::here()?;
    let notes = notes::of_version(
        &package::read(&process::root().join("CHANGELOG.md"))?,
        VERSION,
    )?;
    if !request.architectures.contains(&here) {
        let name = here.debian();
        let text = format!("--only: {name} is missing, whose program writes manuals for all here");
        return Err(Failure::usage(text));
    }
    let made = std::fs::create_dir_all(&request.folder);
    made.map_err(|error| package::at(&request.folder, &error))?;
    let each = if request.is_tried { 3 } else { 2 };
    let mut progress = Progress {
        begun: Instant::now(),
        step: 0,
        steps: each * request.architectures.len() + 2,
    };
    let mut built = Vec::new();
    for architecture in &request.architectures {
        built.push(build_one(&request, *architecture, &mut progress)?);
    }
    let mut made = Vec::new();
    for it in &built {
        let name = it.architecture.debian();
        progress.begin(&format!("packages for {name}"));
        let runs_here = built.iter().find(|it| it.architecture == here);
        let program = Program {
            binary: it.binary.clone(),
            architecture: it.architecture,
            is_static: false,
            runs_here: runs_here.unwrap_or(it).binary.clone(),
        };
        let release = Release::of(program, &request.folder).with_processor_in_bill();
        made.extend(release.uncompressed(request.is_uncompressed).pack(&[])?);
    }
    progress.begin("image (OCI)");
    made.push(write_image(&request, &built)?);
    progress.begin("notes and sums");
    let text = notes::with_files(&notes, &built_table(&built), &sizes(&made)?);
    let path = request.folder.join("RELEASE_NOTES.md");
    package::write(&path, text)?;
    made.push(path);
    let sums = package::write_sums(&request.folder, &made)?;
    for path in made.iter().chain([&sums]) {
        println!("wrote {}", path.display());
    }
    let minutes = progress.begun.elapsed().as_secs_f64() / 60.0;
    println!(
        "glassline {VERSION}, commit {}, in {minutes:.1} min",
        package::commit()
    );
    Ok(())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn build_one(
    request: &Request,
    architecture: Architecture,
    progress: &mut Progress,
) -> Result<Built, Failure> {
    let name = architecture.debian();
    let given = request.binaries.iter().find(|(of, _)| *of == architecture);
    let binary = match given {
        Some((_, binary)) => {
            progress.begin(&format!("program for {name}: {}", binary.display()));
            binary.clone()
        }
        None => {
            progress.begin(&format!(
                "program for {name}: cargo builds it, which takes long"
            ));
            build::program(architecture)?
        }
    };
    let bytes = std::fs::metadata(&binary).map_err(|error| package::at(&binary, &error))?;
    let libraries = needs::libraries(&binary)?;
    build::check(&libraries, bytes.len(), PROGRAM_BYTES_MAX)?;
    if request.is_tried {
        progress.begin(&format!(
            "trial on {name}: --version, and some seconds of serve"
        ));
        let told = trial::run(architecture, &binary)?;
        println!("{told}");
    }
    Ok(Built {
        architecture,
        binary,
        libraries,
    })
}

fn write_image(request: &Request, built: &[Built]) -> Result<PathBuf, String> {
    let layout = request.folder.join(format!("glassline-{VERSION}-oci"));
    let time = package::commit_time();
    let mut image = image::Layout::create(&layout, VERSION, time)?;
    image.compress(!request.is_uncompressed);
    for it in built {
        let root = root_files::of(it.architecture, &it.binary, &it.libraries)?;
        image.add(it.architecture, &root)?;
    }
    image.finish()?;
    let archive = request.folder.join(format!("glassline-{VERSION}-oci.tar"));
    tar::of_folder(&layout, &archive, time)?;
    Ok(archive)
}

/// One line for each processor.
fn built_table(built: &[Built]) -> String {
    let lines = built.iter().map(|it| {
        let (name, glibc) = (it.architecture.debian(), &it.libraries.glibc);
        format!(
            "- {name} ({}): glibc {glibc} or newer, no other library\n",
            it.architecture.machine()
        )
    });
    lines.collect()
}

fn sizes(files: &[PathBuf]) -> Result<Vec<(String, u64)>, String> {
    let size = |path: &PathBuf| {
        let bytes = std::fs::metadata(path).map_err(|error| package::at(path, &error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok((name.into_owned(), bytes.len()))
    };
    files.iter().map(size).collect()
}

fn parse(arguments: &[String]) -> Result<Request, Failure> {
    let mut request = Request {
        folder: process::target_directory().join("release-files"),
        architectures: Architecture::ALL.to_vec(),
        binaries: Vec::new(),
        is_uncompressed: false,
        is_tried: true,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || Failure::usage(format!("{argument} needs a value"));
            arguments.next().cloned().ok_or_else(missing)
        };
        match argument.as_str() {
            "--out" => request.folder = value()?.into(),
            "--only" => {
                let names = value()?;
                let all = names.split(',').map(architecture);
                request.architectures = all.collect::<Result<_, _>>()?;
            }
            "--binary" => {
                let text = value()?;
                let wrong = || Failure::usage(format!("--binary {text}: PROCESSOR=PATH"));
                let (name, path) = text.split_once('=').ok_or_else(wrong)?;
                request
                    .binaries
                    .push((architecture(name)?, Path::new(path).to_owned()));
            }
            "--uncompressed" => request.is_uncompressed = true,
            "--untried" => request.is_tried = false,
            other => return Err(Failure::usage(format!("release takes no `{other}`"))),
        }
    }
    // The tools run elsewhere.
    request.folder = std::path::absolute(&request.folder).map_err(|error| error.to_string())?;
    Ok(request)
}

fn architecture(name: &str) -> Result<Architecture, Failure> {
    let found = Architecture::of_debian(name);
    found.ok_or_else(|| Failure::usage(format!("{name}: there are amd64 and arm64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_request_is_a_usage_error() {
        let failure = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            parse(&words).err().map(|it| it.exit_code)
        };
        assert_eq!(
            failure(&["--only", "amd64", "--binary", "amd64=/x", "--untried"]),
            None
        );
        assert_eq!(failure(&["--only", "riscv"]), Some(2));
        assert_eq!(failure(&["--binary", "/x"]), Some(2));
        assert_eq!(failure(&["--out"]), Some(2));
        assert_eq!(failure(&["--colour"]), Some(2));
    }

    /// A program that writes a page of a manual, and says its name otherwise.
    const DUMMY: &str = "#include <stdio.h>\n#include <string.h>\n\
        int main(int count, char **words) {\n\
            char path[4096];\n\
            if (count < 3 || strcmp(words[1], \"manual\")) return puts(\"glassline\") < 0;\n\
            snprintf(path, sizeof path, \"%s/glassline.1\", words[2]);\n\
            FILE *page = fopen(path, \"w\");\n\
            return !page || fputs(\".TH GLASSLINE 1\\n\", page) < 0 || fclose(page);\n\
        }\n";

    fn dummy(folder: &Path) -> PathBuf {
        let (source, binary) = (folder.join("dummy.c"), folder.join("dummy"));
        package::write(&source, DUMMY).expect("ours");
        let mut cc = std::process::Command::new("cc");
        process::run(cc.arg("-o").arg(&binary).arg(&source)).expect("a compiler");
        binary
    }

    #[test]
    fn a_release_of_a_dummy_has_its_archive_its_bill_and_its_image() {
        let folder = std::env::temp_dir().join(format!("glassline-release-{}", std::process::id()));
        package::fresh(&folder).expect("ours");
        let here = Architecture::here().expect("a processor of ours");
        let binary = dummy(&folder);
        let libraries = needs::libraries(&binary).expect("a program");
        assert_eq!(libraries.names, ["libc.so.6"]);
        assert!(libraries.glibc.starts_with("2."), "{}", libraries.glibc);
        let request = Request {
            folder: folder.clone(),
            architectures: vec![here],
            binaries: Vec::new(),
            is_uncompressed: true,
            is_tried: false,
        };
        let program = Program {
            binary: binary.clone(),
            architecture: here,
            is_static: false,
            runs_here: binary.clone(),
        };
        let kinds = ["contents".to_owned(), "tar".to_owned()];
        let release = Release::of(program, &folder).with_processor_in_bill();
        let made = release.uncompressed(true).pack(&kinds).expect("packed");
        let names: Vec<_> = made
            .iter()
            .filter_map(|it| it.file_name()?.to_str())
            .collect();
        let machine = here.machine();
        let of = |suffix: &str| format!("glassline-{VERSION}-linux-{machine}.{suffix}");
        assert_eq!(names, [of("cdx.json"), of("tar")]);
        let bill = package::read(&made[0]).expect("a bill");
        let bill: serde_json::Value = serde_json::from_str(&bill).expect("JSON");
        assert_eq!(bill["metadata"]["component"]["version"], VERSION);
        let mut tar = std::process::Command::new("tar");
        let listed = process::output_of(tar.arg("--list").arg("--file").arg(&made[1]));
        let listed = listed.expect("an archive");
        for file in [
            "usr/bin/glassline",
            "usr/share/man/man1/glassline.1.gz",
            "etc/glassline/glassline.yml",
        ] {
            assert!(
                listed.lines().any(|it| it.ends_with(file)),
                "{file}: {listed}"
            );
        }
        let built = Built {
            architecture: here,
            binary,
            libraries,
        };
        let image = write_image(&request, &[built]).expect("an image");
        let mut tar = std::process::Command::new("tar");
        let listed = process::output_of(tar.arg("--list").arg("--file").arg(&image));
        let listed = listed.expect("an archive");
        assert!(listed.lines().any(|it| it == "oci-layout") && listed.contains("blobs/sha256/"));
        let sums = package::write_sums(&folder, &[made, vec![image]].concat()).expect("sums");
        assert_eq!(package::read(&sums).expect("sums").lines().count(), 3);
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
