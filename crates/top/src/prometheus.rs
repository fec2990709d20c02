//! `--prometheus :PORT`: the last look as text for Prometheus, on the loopback only.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::get;
use highwater_loopback::{Manner, own_host};
use highwater_monitor::{GpuSample, ProcessSample, Sample};
use highwater_output::printable::printable;
use highwater_output::sink::note;
use highwater_problem::Problem;

/// For a reader to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `:9400` or `9400`; 0 takes a port that is free.
pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    let number = text.strip_prefix(':').unwrap_or(text);
    number.parse().map_err(|_| "expected a port, as in `:9400`; only this machine is served".to_owned())
}

/// Serves from a thread of its own what is put into the place that is given back.
///
/// # Errors
/// The port is taken.
pub(super) fn serve(port: u16) -> Result<Arc<Mutex<Sample>>, Problem> {
    let taken = |error: io::Error| {
        Problem::new(format!("cannot listen on port {port}"))
            .because(error)
            .hint("name another port, or `:0` for a free one")
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(taken)?;
    let port = listener.local_addr().map_err(taken)?.port();
    // That it listens is said for those who asked for any port.
    let _ = note(&format!("serving Prometheus metrics at http://127.0.0.1:{port}/metrics"));
    let place = Arc::new(Mutex::new(Sample::default()));
    let served = Arc::clone(&place);
    let numbers = router(port, move || metrics(&served.lock().unwrap_or_else(PoisonError::into_inner)));
    std::thread::spawn(move || {
        if let Err(error) = highwater_loopback::run(listener, Manner::Question(PATIENCE), numbers) {
            let _ = note(&format!("cannot serve Prometheus metrics: {error}"));
        }
    });
    Ok(place)
}

fn router(port: u16, numbers: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let said = |status: StatusCode, text: &'static str| async move { (status, [(CONTENT_TYPE, TEXT)], text) };
    let own_name_only = move |request: Request, next: Next| async move {
        // A page from elsewhere that calls this address by a name of its own gets nothing.
        if own_host(request.headers(), port).is_none() {
            return said(StatusCode::FORBIDDEN, "only as 127.0.0.1 or localhost\n").await.into_response();
        }
        next.run(request).await
    };
    let numbers = move || async move { ([(CONTENT_TYPE, TEXT)], numbers()) };
    Router::new()
        .route("/metrics", get(numbers))
        .fallback(move || said(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"))
        .method_not_allowed_fallback(move || said(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"))
        .layer(middleware::from_fn(own_name_only))
}

/// A number of a GPU.
type OfGpu = fn(&GpuSample) -> Option<f64>;

/// A number of a process.
type OfProcess = fn(&ProcessSample) -> Option<f64>;

const OF_GPUS: [(&str, &str, OfGpu); 10] = [
    ("gpu_memory_total_bytes", "Memory of the GPU", |gpu| Some(float(gpu.memory?.total_bytes))),
    ("gpu_memory_used_bytes", "Memory in use by programs", |gpu| Some(float(gpu.memory?.used_bytes))),
    ("gpu_memory_free_bytes", "Memory not in use", |gpu| Some(float(gpu.memory?.free_bytes))),
    ("gpu_memory_reserved_bytes", "Memory reserved by the driver", |gpu| Some(float(gpu.memory?.reserved_bytes))),
    ("gpu_bar1_used_bytes", "BAR1 window in use", |gpu| Some(float(gpu.bar1?.used_bytes))),
    ("gpu_utilization_ratio", "Share of time in which a kernel ran", |gpu| {
        Some(f64::from(gpu.utilization?.gpu_percent) / 100.0)
    }),
    ("gpu_temperature_celsius", "Temperature", |gpu| Some(f64::from(gpu.temperature_c?))),
    ("gpu_power_watts", "Power draw", |gpu| Some(f64::from(gpu.power?.draw_mw) / 1000.0)),
    ("gpu_ecc_uncorrected_errors", "Uncorrected memory errors since the driver was loaded", |gpu| {
        Some(float(gpu.ecc?.uncorrected?))
    }),
    ("gpu_lost", "1 if the GPU has fallen off the bus", |gpu| Some(f64::from(u8::from(gpu.is_lost)))),
];

const OF_PROCESSES: [(&str, &str, OfProcess); 7] = [
    ("process_memory_bytes", "Memory of a process on a GPU, as the driver reports it", |process| {
        Some(float(process.bytes?))
    }),
    ("process_torch_allocated_bytes", "Allocated by PyTorch", |process| {
        Some(float(process.torch.as_ref()?.allocated_bytes))
    }),
    ("process_torch_cached_bytes", "Reserved by PyTorch but not allocated", |process| {
        Some(float(process.torch.as_ref()?.cached_bytes))
    }),
    ("process_torch_peak_allocated_bytes", "Peak of allocated memory since the last sample", |process| {
        Some(float(process.torch.as_ref()?.peak_allocated_bytes))
    }),
    ("process_context_bytes", "The CUDA context", |process| Some(float(process.torch.as_ref()?.context_bytes))),
    ("process_libraries_bytes", "Libraries and kernels", |process| {
        Some(float(process.torch.as_ref()?.libraries_bytes))
    }),
    ("process_unexplained_bytes", "Memory in none of these parts", |process| {
        Some(float(process.torch.as_ref()?.unexplained_bytes))
    }),
];

/// Prometheus counts in doubles, which are exact up to 8 PiB.
#[expect(clippy::cast_precision_loss, reason = "memory is below 2^53 bytes")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// The text.
pub(super) fn metrics(sample: &Sample) -> String {
    let mut text = String::new();
    for (name, help, value) in OF_GPUS {
        let rows = sample.gpus.iter().filter_map(|gpu| Some((gpu_labels(gpu), value(gpu)?)));
        gauge(&mut text, name, help, rows);
    }
    for (name, help, value) in OF_PROCESSES {
        let all = sample.gpus.iter().flat_map(|gpu| gpu.processes.iter().map(move |process| (gpu, process)));
        let rows = all.filter_map(|(gpu, process)| {
            let user = escaped(process.user.as_deref().unwrap_or_default());
            let labels = format!("{},pid=\"{}\",user=\"{user}\"", gpu_labels(gpu), process.pid);
            Some((labels, value(process)?))
        });
        gauge(&mut text, name, help, rows);
    }
    text
}

fn gauge(text: &mut String, name: &str, help: &str, rows: impl Iterator<Item = (String, f64)>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP highwater_{name} {help}\n# TYPE highwater_{name} gauge");
    for (labels, value) in rows {
        let _ = writeln!(text, "highwater_{name}{{{labels}}} {value}");
    }
}

fn gpu_labels(gpu: &GpuSample) -> String {
    let uuid = escaped(gpu.uuid.as_deref().unwrap_or_default());
    format!("gpu=\"{}\",uuid=\"{uuid}\",name=\"{}\"", gpu.label(), escaped(&gpu.name))
}

/// As the text format wants labels' values.
fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_monitor::Memory;

    #[test]
    fn ports_are_numbers() {
        assert_eq!(parse_port(":9400"), Ok(9400));
        assert_eq!(parse_port("9400"), Ok(9400));
        assert!(parse_port("0.0.0.0:9400").is_err() && parse_port("70000").is_err());
    }

    #[test]
    fn what_is_not_known_is_not_there() {
        let memory = Some(Memory { total_bytes: 10, used_bytes: 5, free_bytes: 4, reserved_bytes: 1 });
        let gpu = GpuSample { name: "a\"b\\\n".into(), memory, ..GpuSample::default() };
        let text = metrics(&Sample { gpus: vec![gpu], ..Sample::default() });
        assert!(
            text.contains("highwater_gpu_memory_used_bytes{gpu=\"0\",uuid=\"\",name=\"a\\\"b\\\\\\\\n\"} 5\n"),
            "{text}"
        );
        assert!(!text.contains("temperature"), "{text}");
    }
}
